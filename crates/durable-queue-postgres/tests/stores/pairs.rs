//! Every pair of calls that write, on two sessions: the first one is held up at each of its row locks while the second
//! one runs. Neither may fail, and the result must be that of one after the other, for each key, each group and each kind:
//! the calls promise nothing about several of them together.
//!
//! A call that skips a locked job has the same result as one that comes before or after, as soon as somebody claims: so
//! the states are compared after a further claim.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use ::postgres::Client;
use durable_queue::store::{Act, Claim, Keep, Lease, Verdict};
use durable_queue::{JobId, Limit, Merge, NewJob, Store, StoreError, Token, When, Which};
use durable_queue_postgres::PostgresStore;
use testkit::{LIMIT, watchdog};

use super::Database;
use crate::alike::JOB;

const QUEUE: &str = "queue";
/// The number of the advisory lock at which the first call is held up.
const GATE: i64 = 4_711;
const FIRST: &str = "first";
const SECOND: &str = "second";

/// What the calls refer to.
struct Jobs {
    leases: BTreeMap<&'static str, Lease>,
    ids: BTreeMap<&'static str, JobId>,
    token: Token,
}

type Called = Result<(), StoreError>;

struct Call {
    name: &'static str,
    make: fn(&PostgresStore, &Jobs) -> Called,
}

fn keyed(key: &'static str, payload: &'static str) -> NewJob<'static> {
    NewJob {
        key: Some(key.as_bytes()),
        merge: Merge::Earliest,
        payload: payload.as_bytes(),
        ..JOB
    }
}

fn grouped(payload: &'static str) -> NewJob<'static> {
    NewJob {
        group: Some("group"),
        payload: payload.as_bytes(),
        ..JOB
    }
}

fn of_kind(payload: &'static str) -> NewJob<'static> {
    NewJob {
        kind: Some("kind"),
        payload: payload.as_bytes(),
        ..JOB
    }
}

fn repeating(payload: &'static str) -> NewJob<'static> {
    NewJob {
        schedule: Some("hourly"),
        ..keyed("repeating", payload)
    }
}

fn claim_with(token: Token) -> Claim<'static> {
    Claim {
        token,
        kinds: None,
        max: 100,
        start: 100,
        ahead: 0,
        horizon: LIMIT,
        lease: LIMIT * 100,
        urgent_first: true,
    }
}

/// Settles the jobs of the setup in this order. A start that finds its job locked is repeated, as by a pump.
fn settle(store: &PostgresStore, jobs: &Jobs, names: &[&str], act: Act<'_>) -> Called {
    let settles: Vec<_> = names
        .iter()
        .map(|name| jobs.leases[name].settle(act))
        .collect();
    for _ in 0..2 {
        let turn = store.turn(QUEUE, &settles, None)?;
        if !turn.verdicts.contains(&Verdict::NotDue) {
            break;
        }
    }
    Ok(())
}

const RUNNING: [&str; 4] = ["group 1", "key", "kind 1", "repeating"];
const REVERSED: [&str; 4] = ["repeating", "kind 1", "key", "group 1"];

const CALLS: [Call; 16] = [
    Call {
        name: "push of keys",
        make: |store, _| {
            let jobs = [
                keyed("open", "push 1"),
                keyed("key", "push 2"),
                repeating("push 3"),
                keyed("dead", "push 4"),
                grouped("push 5"),
            ];
            store.enqueue(QUEUE, &jobs).map(drop)
        },
    },
    Call {
        name: "push of keys in another order",
        make: |store, _| {
            let moved = NewJob {
                group: Some("another"),
                ..keyed("group", "other 4")
            };
            let jobs = [
                keyed("dead", "other 1"),
                repeating("other 2"),
                moved,
                keyed("key", "other 3"),
                keyed("open", "other 5"),
            ];
            store.enqueue(QUEUE, &jobs).map(drop)
        },
    },
    Call {
        name: "claim",
        make: |store, jobs| {
            store
                .turn(QUEUE, &[], Some(claim_with(jobs.token)))
                .map(drop)
        },
    },
    Call {
        name: "acknowledgement and claim",
        make: |store, jobs| {
            let settles = RUNNING.map(|name| jobs.leases[name].settle(Act::Ack));
            let claim = claim_with(jobs.token);
            store.turn(QUEUE, &settles, Some(claim)).map(drop)
        },
    },
    Call {
        name: "retry",
        make: |store, jobs| settle(store, jobs, &REVERSED, Act::retry(When::After(LIMIT))),
    },
    Call {
        name: "release",
        make: |store, jobs| settle(store, jobs, &RUNNING, Act::Release),
    },
    Call {
        name: "burial",
        make: |store, jobs| settle(store, jobs, &REVERSED, Act::bury("lost")),
    },
    Call {
        name: "repetition and end",
        make: |store, jobs| {
            settle(
                store,
                jobs,
                &["repeating"],
                Act::Again { when: LIMIT.into() },
            )?;
            let keep = Keep {
                span: LIMIT,
                took: LIMIT,
                result: None,
            };
            settle(store, jobs, &["key", "group 1"], Act::Keep(keep))
        },
    },
    Call {
        name: "start and extension",
        make: |store, jobs| {
            let lease = LIMIT * 100;
            settle(store, jobs, &["ahead"], Act::Start { lease })?;
            settle(store, jobs, &REVERSED, Act::Extend { lease })
        },
    },
    Call {
        name: "cancel of an open job and a running one",
        make: |store, _| {
            _ = store.cancel(QUEUE, Which::Key(b"open"))?;
            store.cancel(QUEUE, Which::Key(b"key")).map(drop)
        },
    },
    Call {
        name: "cancel of jobs that wait",
        make: |store, jobs| {
            _ = store.cancel(QUEUE, Which::Id(jobs.ids["group 2"]))?;
            store.cancel(QUEUE, Which::Id(jobs.ids["kind 2"])).map(drop)
        },
    },
    Call {
        name: "reset",
        make: |store, jobs| {
            for name in ["ahead", "kind 2", "group 2"] {
                _ = store.reset(QUEUE, Which::Id(jobs.ids[name]), When::NOW)?;
            }
            store.reset(QUEUE, Which::Key(b"open"), When::NOW).map(drop)
        },
    },
    Call {
        name: "redrive",
        make: |store, jobs| store.redrive(QUEUE, &[jobs.ids["dead"]]).map(drop),
    },
    Call {
        name: "deletion of a dead letter",
        make: |store, jobs| store.delete_dead(QUEUE, &[jobs.ids["dead"]]).map(drop),
    },
    Call {
        name: "another rule of groups",
        make: |store, _| store.limit(QUEUE, &Limit::per_group(2), true),
    },
    Call {
        name: "another limit of a kind",
        make: |store, _| store.limit(QUEUE, &Limit::per_kind("kind", 2), true),
    },
];

/// The tables that calls write.
const TABLES: [&str; 5] = ["job", "dead", "done", "queue", "kind_limit"];

/// Fills the tables, saves their contents, and sets the gate: triggers count the row locks of a transaction.
fn set_up(database: &Database) -> Jobs {
    let store = &database.store;
    let ids = RefCell::new(BTreeMap::new());
    let push = |name, job: NewJob<'_>| {
        let id = store.enqueue(QUEUE, &[job]).unwrap()[0].id();
        ids.borrow_mut().insert(name, id);
    };
    store.limit(QUEUE, &Limit::ordered(), true).unwrap();
    store
        .limit(QUEUE, &Limit::per_kind("kind", 1), true)
        .unwrap();
    push("dead", keyed("dead", "dead"));
    let claim = || {
        store
            .turn(QUEUE, &[], Some(claim_with(Token::random())))
            .unwrap()
    };
    let dead = claim().claimed.unwrap().leases;
    let bury = dead[0].settle(Act::bury("lost"));
    store.turn(QUEUE, &[bury], None).unwrap();
    push(
        "group 1",
        NewJob {
            key: Some(b"group"),
            ..grouped("group 1")
        },
    );
    push("key", keyed("key", "key"));
    push("kind 1", of_kind("kind 1"));
    push("repeating", repeating("repeating"));
    let leases = claim().claimed.unwrap().leases;
    push("group 2", grouped("group 2"));
    push("kind 2", of_kind("kind 2"));
    assert!(claim().claimed.unwrap().leases.is_empty());
    push("ahead", keyed("ahead", "ahead"));
    let ahead = Claim {
        start: 0,
        ahead: 1,
        ..claim_with(Token::random())
    };
    let ahead = store.turn(QUEUE, &[], Some(ahead)).unwrap();
    let leases = leases.into_iter().chain(ahead.claimed.unwrap().leases);
    let leases = leases.map(|lease| {
        let ids = ids.borrow();
        let name = ids.iter().find(|(_, id)| **id == lease.id).unwrap().0;
        (*name, lease)
    });
    let leases: BTreeMap<_, _> = leases.collect();
    assert_eq!(leases.len(), 5);
    push("open", keyed("open", "open"));
    for table in TABLES {
        database.sql(&format!(
            "CREATE TABLE SCHEMA.saved_{table} AS TABLE SCHEMA.{table}"
        ));
    }
    database.sql(&format!(
        "CREATE TABLE SCHEMA.gate (step integer NOT NULL);
        INSERT INTO SCHEMA.gate VALUES (0);
        CREATE FUNCTION SCHEMA.hold_up() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            v_step integer;
            v_limit text := current_setting('lock_timeout');
        BEGIN
            IF current_setting('application_name') = '{FIRST}' THEN
                v_step := coalesce(nullif(current_setting('test.step', true), ''), '0')::integer + 1;
                PERFORM set_config('test.step', v_step::text, true);
                IF v_step = (SELECT g.step FROM SCHEMA.gate g) THEN
                    -- Only the calls' own waits are limited.
                    PERFORM set_config('lock_timeout', '0', true);
                    PERFORM pg_advisory_xact_lock_shared({GATE});
                    PERFORM set_config('lock_timeout', v_limit, true);
                END IF;
            END IF;
            RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
        END
        $$;"
    ));
    // A row is locked before these triggers are called, and after an insert of it.
    for table in TABLES {
        database.sql(&format!(
            "CREATE TRIGGER held_up BEFORE UPDATE OR DELETE ON SCHEMA.{table}
            FOR EACH ROW EXECUTE FUNCTION SCHEMA.hold_up();
            CREATE TRIGGER inserted AFTER INSERT ON SCHEMA.{table}
            FOR EACH ROW EXECUTE FUNCTION SCHEMA.hold_up()"
        ));
    }
    Jobs {
        leases,
        ids: ids.into_inner(),
        token: Token::random(),
    }
}

/// Without triggers, and faster than by `TRUNCATE`.
fn restore(database: &Database) {
    let tables = TABLES.map(|table| {
        format!(
            "DELETE FROM SCHEMA.{table};
            INSERT INTO SCHEMA.{table} OVERRIDING SYSTEM VALUE SELECT * FROM SCHEMA.saved_{table};"
        )
    });
    database.sql(&format!(
        "SET session_replication_role = replica;
        UPDATE SCHEMA.gate SET step = 0; {}
        SET session_replication_role = DEFAULT",
        tables.join(" ")
    ));
}

/// After a further claim: everything but ids and numbers, by key, group or kind.
fn state(database: &Database, jobs: &Jobs) -> BTreeMap<String, Vec<String>> {
    let claim = claim_with(jobs.token);
    for _ in 0..2 {
        database.store.turn(QUEUE, &[], Some(claim)).unwrap();
    }
    let text = database.get::<String>(
        "SELECT string_agg(a.what || '|' || a.line, E'\\n' ORDER BY a.line) FROM (
            SELECT CASE WHEN j.job_group IS NOT NULL THEN 'group' ELSE coalesce(j.kind, convert_from(j.key, 'UTF8')) END,
                concat_ws(' ', convert_from(j.payload, 'UTF8'), 'due', j.due, 'at', j.at, 'most', j.most,
                'run', j.run <> 0, 'place', sign(j.place), 'seat', sign(j.seat), 'group', j.job_group,
                'attempts', j.attempts, j.started, j.urgent, j.cancelled, 'held', j.token IS NOT NULL, j.schedule)
            FROM SCHEMA.job j
            UNION ALL
            SELECT coalesce(d.job_group, d.kind, convert_from(d.key, 'UTF8')),
                concat_ws(' ', 'dead', convert_from(d.payload, 'UTF8'), d.attempts) FROM SCHEMA.dead d
            UNION ALL
            SELECT convert_from(d.key, 'UTF8'), 'done' FROM SCHEMA.done d
        ) AS a(what, line)",
    );
    let mut state = BTreeMap::<_, Vec<_>>::new();
    for (what, line) in text.lines().filter_map(|line| line.split_once('|')) {
        state
            .entry(what.to_owned())
            .or_default()
            .push(line.to_owned());
    }
    state
}

/// Waits until a session with this name waits for a lock, or its call has ended.
fn wait_for(database: &Database, name: &str, has_ended: impl Fn() -> bool + Send + Sync) {
    watchdog(LIMIT, || {
        while database.waiting_for_locks(name) == 0 && !has_ended() {
            thread::yield_now();
        }
    });
}

/// Runs both calls, the first one held up at its lock of this number. Returns whether it has as many.
fn run(
    database: &Database,
    jobs: &Jobs,
    [first, second]: [(&Call, &PostgresStore); 2],
    step: usize,
    gate: &mut Client,
) -> bool {
    gate.execute("SELECT pg_advisory_lock($1)", &[&GATE])
        .unwrap();
    database.sql(&format!("UPDATE SCHEMA.gate SET step = {step}"));
    thread::scope(|scope| {
        let one = scope.spawn(move || (first.0.make)(first.1, jobs));
        wait_for(database, FIRST, || one.is_finished());
        let is_held_up = !one.is_finished();
        let two = scope.spawn(move || (second.0.make)(second.1, jobs));
        wait_for(database, SECOND, || two.is_finished());
        gate.execute("SELECT pg_advisory_unlock($1)", &[&GATE])
            .unwrap();
        for (ended, call) in [(one, first.0), (two, second.0)] {
            let ended = ended.join().unwrap();
            let pair = [first.0.name, second.0.name];
            assert!(
                ended.is_ok(),
                "{} of {pair:?}, step {step}: {ended:?}",
                call.name
            );
        }
        is_held_up
    })
}

#[test]
fn every_pair_of_writing_calls_has_one_of_its_sequential_results() {
    let Some(database) = Database::with_manual_clock() else {
        return;
    };
    let jobs = set_up(&database);
    let open = |name: &str| {
        let address = format!("{}?application_name={name}", database.address);
        let options = database.options().busy_timeout(LIMIT * 10).sessions(1);
        options.open(&address).unwrap()
    };
    let stores = [FIRST, SECOND].map(open);
    let mut gate = database.session();
    let mut steps = 0;
    for first in &CALLS {
        for second in &CALLS {
            let sequential = [[first, second], [second, first]].map(|order| {
                restore(&database);
                for call in order {
                    (call.make)(&database.store, &jobs).unwrap();
                }
                state(&database, &jobs)
            });
            for step in 1.. {
                restore(&database);
                let calls = [(first, &stores[0]), (second, &stores[1])];
                if !run(&database, &jobs, calls, step, &mut gate) {
                    break;
                }
                steps += 1;
                let found = state(&database, &jobs);
                let names: BTreeSet<_> = sequential
                    .iter()
                    .chain([&found])
                    .flat_map(|it| it.keys())
                    .collect();
                for name in names {
                    let [one, other] = [0, 1].map(|at| sequential[at].get(name));
                    let is = found.get(name);
                    assert!(
                        is == one || is == other,
                        "{} and {}, step {step}, {name}: {is:#?} is neither {one:#?} nor {other:#?}",
                        first.name,
                        second.name
                    );
                }
            }
        }
    }
    // Each call that writes rows is held up at least once with each other one.
    assert!(steps > CALLS.len() * CALLS.len(), "{steps}");
}

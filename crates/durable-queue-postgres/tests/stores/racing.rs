//! Calls that need a row locked by a concurrent transaction: they wait for it, then see its changes.

use std::collections::BTreeSet;
use std::thread;

use ::postgres::{Client, NoTls};
use durable_queue::store::{Act, Claim, KindRoom, Lease, Settle};
use durable_queue::{
    Cancelled, JobId, Limit, Merge, NewJob, PushIn, Put, Reset, Store, Token, When, Which,
};
use durable_queue_postgres::PostgresStore;
use durable_queue_testing::conformance::Fixture as _;
use testkit::{LIMIT, Rng, watchdog};

use super::Database;
use crate::alike::{JOB, count};

const KEYED: NewJob<'_> = NewJob {
    key: Some(b"key"),
    ..JOB
};
const OF_GROUP: NewJob<'_> = NewJob {
    group: Some("account 7"),
    ..JOB
};
const REPEATING: NewJob<'_> = NewJob {
    schedule: Some("hourly"),
    ..KEYED
};
/// The changes of a claim to the job `OPEN`.
const CLAIM: &str =
    "UPDATE SCHEMA.job SET token = '00000000-0000-0000-0000-000000000002', started = true,
    attempts = 1, run = id, due = due + 3600000000 WHERE id = OPEN";

fn name(database: &Database) -> String {
    format!("{}_calls", database.schema)
}

/// Returns the address, with an application name for the sessions.
fn address(database: &Database) -> String {
    format!("{}?application_name={}", database.address, name(database))
}

/// Returns the result of a call that waits for `change`, which commits after `look` has inspected the state
/// during the wait.
pub(super) fn during<R: Send>(
    database: &Database,
    change: &str,
    look: impl FnOnce(),
    call: impl FnOnce(&PostgresStore) -> R + Send,
) -> R {
    let name = name(database);
    let address = address(database);
    let options = database.options().busy_timeout(LIMIT * 10);
    let store = options.open(&address).unwrap();
    thread::scope(|scope| {
        // Inside the scope, so that a failing look ends the transaction, and with it the wait.
        let mut other = database.session();
        other.batch_execute("BEGIN").unwrap();
        let change = change.replace("SCHEMA", &database.schema);
        other.batch_execute(&change).unwrap();
        let called = scope.spawn(|| call(&store));
        watchdog(LIMIT, || {
            while database.waiting_for_locks(&name) == 0 && !called.is_finished() {
                thread::yield_now();
            }
        });
        look();
        other.batch_execute("COMMIT").unwrap();
        called.join().unwrap()
    })
}

/// The first batch waits for a job of another transaction, and the second for the first.
#[test]
fn keyed_batches_in_opposite_orders_do_not_wait_in_a_circle() {
    let Some(database) = Database::new() else {
        return;
    };
    let name = name(&database);
    let options = database.options().busy_timeout(LIMIT * 10);
    let store = options.open(&address(&database)).unwrap();
    let batch = |keys: [&'static str; 3]| {
        keys.map(|key| NewJob {
            key: Some(key.as_bytes()),
            merge: Merge::Earliest,
            payload: key.as_bytes(),
            ..JOB
        })
    };
    let puts = store.enqueue("queue", &batch(["c", "b", "a"])).unwrap();
    let ids: Vec<_> = puts.iter().map(|put| put.id()).collect();
    assert!(ids.is_sorted(), "new jobs are in the order of the batch");
    let is_waiting = |count| {
        watchdog(LIMIT, || {
            while database.waiting_for_locks(&name) < count {
                thread::yield_now();
            }
        });
    };
    thread::scope(|scope| {
        let mut other = database.session();
        let lock = "BEGIN; UPDATE SCHEMA.job SET urgent = urgent WHERE key = 'b'";
        let lock = lock.replace("SCHEMA", &database.schema);
        other.batch_execute(&lock).unwrap();
        let first = scope.spawn(|| store.enqueue("queue", &batch(["b", "new", "a"])));
        is_waiting(1);
        let second = scope.spawn(|| store.enqueue("queue", &batch(["a", "new", "b"])));
        is_waiting(2);
        other.batch_execute("COMMIT").unwrap();
        let [first, second] = [first, second].map(|call| call.join().unwrap().unwrap());
        assert_eq!(first[0], Put::Merged(ids[1]));
        assert_eq!(first[2], Put::Merged(ids[2]));
        assert!(matches!(first[1], Put::New(_)));
        let expected = [
            Put::Merged(ids[2]),
            Put::Merged(first[1].id()),
            Put::Merged(ids[1]),
        ];
        assert_eq!(second, expected);
    });
}

fn pushed(store: &PostgresStore, job: NewJob<'_>) -> JobId {
    store.enqueue("queue", &[job]).unwrap()[0].id()
}

fn claim() -> Claim<'static> {
    Claim {
        token: Token::random(),
        kinds: None,
        max: 1,
        start: 1,
        ahead: 0,
        horizon: LIMIT,
        lease: LIMIT * 10,
        urgent_first: true,
    }
}

fn of(id: JobId, text: &str) -> String {
    text.replace("OPEN", &id.as_u64().to_string())
}

/// Pushes in a concurrent transaction of the application, which an error would abort.
fn pushed_during(database: &Database, change: &str, job: NewJob<'_>) -> Vec<Put> {
    let address = address(database);
    let mut own = Client::connect(&address, NoTls).unwrap();
    let push = |store: &PostgresStore| {
        let mut transaction = own.transaction().unwrap();
        let puts = store.enqueue_in(&mut transaction, "queue", &[job]);
        transaction.commit().unwrap();
        puts
    };
    during(database, change, || (), push).unwrap()
}

#[test]
fn a_push_concurrent_with_the_creation_of_its_queue_succeeds() {
    let Some(database) = Database::new() else {
        return;
    };
    let change = "SELECT SCHEMA.queue_of('queue')";
    let puts = pushed_during(&database, change, JOB);
    assert!(matches!(puts[..], [Put::New(_)]), "{puts:?}");
    assert_eq!(count(&database.store), 1);
}

#[test]
fn a_push_finds_the_concurrent_push_of_its_key() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql("SELECT SCHEMA.queue_of('queue')");
    let change = "SELECT SCHEMA.push('queue', 'other', NULL, 'key')";
    let puts = pushed_during(&database, change, KEYED);
    assert!(matches!(puts[..], [Put::Kept(_)]), "{puts:?}");
    assert_eq!(count(&database.store), 1);
}

/// The push reads the head as it was before the listener has raised it, and so notifies nobody.
#[test]
fn a_turn_sees_a_push_made_while_a_new_listener_raises_the_head() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    let later = NewJob {
        when: (LIMIT * 60).into(),
        ..JOB
    };
    pushed(store, later);
    let announce = format!("SELECT SCHEMA.announce('queue', {}, '')", i64::MIN);
    database.sql(&announce);
    let push = || _ = pushed(store, JOB);
    let turn = |store: &PostgresStore| store.turn("queue", &[], Some(claim())).unwrap();
    let turn = during(&database, "SELECT SCHEMA.listen('queue')", push, turn);
    let now = store.turn("queue", &[], None).unwrap().now;
    assert!(turn.claimed.unwrap().first <= now);
}

/// Both processes know the due time, so none is notified. The holder may die.
#[test]
fn a_turn_that_claims_nothing_knows_the_end_of_a_lease_that_was_made_during_it() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    let id = pushed(store, JOB);
    database.sql("SELECT SCHEMA.listen('queue')");
    let turn = database.get::<String>("SELECT pg_get_functiondef('SCHEMA.turn'::regproc)");
    let claims = "FOR v_step IN 1..4 LOOP";
    assert!(turn.contains(claims));
    let pause = "PERFORM pg_advisory_xact_lock(hashtext('SCHEMA'));";
    database.sql(&turn.replace(claims, &format!("{pause} {claims}")));
    let other = || database.sql(&of(id, CLAIM));
    let turn = |store: &PostgresStore| store.turn("queue", &[], Some(claim())).unwrap();
    let turn = during(&database, &pause.replace("PERFORM", "SELECT"), other, turn);
    let claimed = turn.claimed.unwrap();
    assert!(claimed.leases.is_empty());
    let end = database.get::<i64>("SELECT due FROM SCHEMA.job");
    assert!(claimed.first.as_micros() <= end);
}

/// The announcement may wait and fail; the job is inserted.
#[test]
fn a_push_is_committed_before_it_is_announced() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql("SELECT SCHEMA.queue_of('queue')");
    let change = "SELECT FROM SCHEMA.queue FOR UPDATE";
    let look = || assert_eq!(count(&database.store), 1);
    during(&database, change, look, |store| pushed(store, JOB));
}

#[test]
fn a_cancel_concurrent_with_a_claim_reports_that_a_handler_has_the_job() {
    for by_key in [false, true] {
        let Some(database) = Database::new() else {
            return;
        };
        let id = pushed(&database.store, KEYED);
        let which = if by_key {
            Which::Key(b"key")
        } else {
            Which::Id(id)
        };
        let cancel = |store: &PostgresStore| store.cancel("queue", which).unwrap();
        let cancelled = during(&database, &of(id, CLAIM), || (), cancel);
        assert_eq!((cancelled, count(&database.store)), (Cancelled::Taken, 1));
    }
}

/// The cancel comes before that push, which it would otherwise make a job that runs only once.
#[test]
fn a_cancel_by_key_leaves_the_schedule_of_a_job_pushed_after_it_has_found_the_running_one() {
    let Some(database) = Database::new() else {
        return;
    };
    let id = pushed(&database.store, KEYED);
    let push = "SELECT SCHEMA.enqueue('queue', '{0}', '{true}', '{other}', '{key}', '{0}', '{NULL}', '{NULL}',
        '{hourly}', '{false}', NULL, NULL, NULL, false)";
    let change = of(id, &format!("{CLAIM}; {push}"));
    let cancel = |store: &PostgresStore| store.cancel("queue", Which::Key(b"key")).unwrap();
    let cancelled = during(&database, &change, || (), cancel);
    assert_eq!(cancelled, Cancelled::Taken);
    let listed = database.store.list("queue", None, 10).unwrap();
    let of_each = listed
        .iter()
        .map(|job| (job.id == id, job.cancelled, job.schedule.as_deref()));
    let of_each: Vec<_> = of_each.collect();
    assert_eq!(
        of_each,
        [(false, false, Some("hourly")), (true, true, None)]
    );
}

/// A holder that does not confirm starts may have handed out the job when it became due.
#[test]
fn a_cancel_and_a_reset_read_the_clock_after_they_have_locked_the_job() {
    for (resets, by_key) in [(false, false), (false, true), (true, false)] {
        let Some(database) = Database::with_manual_clock() else {
            return;
        };
        let later = NewJob {
            when: (LIMIT / 2).into(),
            ..KEYED
        };
        let id = pushed(&database.store, later);
        let ahead = Claim {
            token: Token::random().without_confirmation(),
            kinds: None,
            start: 0,
            ahead: 1,
            ..claim()
        };
        database.store.turn("queue", &[], Some(ahead)).unwrap();
        let which = if by_key {
            Which::Key(b"key")
        } else {
            Which::Id(id)
        };
        let is_taken = |store: &PostgresStore| {
            if resets {
                let reset = store.reset("queue", which, When::NOW).unwrap();
                reset == Reset::Taken
            } else {
                store.cancel("queue", which).unwrap() == Cancelled::Taken
            }
        };
        let lock = "SELECT FROM SCHEMA.job FOR UPDATE";
        let becomes_due = || database.advance(LIMIT / 2);
        assert!(
            during(&database, lock, becomes_due, is_taken),
            "{resets} {by_key}"
        );
        assert_eq!(count(&database.store), 1);
    }
}

/// Otherwise it would change a deleted job, and be lost.
#[test]
fn a_repeating_push_concurrent_with_the_acknowledgement_of_its_run_succeeds() {
    let Some(database) = Database::new() else {
        return;
    };
    let id = pushed(&database.store, REPEATING);
    database.store.turn("queue", &[], Some(claim())).unwrap();
    let change = of(id, "DELETE FROM SCHEMA.job WHERE id = OPEN");
    let push = |store: &PostgresStore| store.enqueue("queue", &[REPEATING]).unwrap();
    let puts = during(&database, &change, || (), push);
    assert!(matches!(puts[..], [Put::New(_)]), "{puts:?}");
    assert_eq!(count(&database.store), 1);
}

/// Otherwise two jobs of the key would repeat from now on.
#[test]
fn a_repeating_push_finds_the_run_that_a_concurrent_claim_has_started() {
    let plain = " ; SELECT SCHEMA.push('queue', 'other', NULL, 'key')";
    for (change, jobs) in [(CLAIM, 1), (&format!("{CLAIM}{plain}"), 2)] {
        let Some(database) = Database::new() else {
            return;
        };
        let id = pushed(&database.store, REPEATING);
        let push = |store: &PostgresStore| {
            let later = NewJob {
                merge: Merge::Latest,
                ..REPEATING
            };
            store.enqueue("queue", &[later]).unwrap()
        };
        let puts = during(&database, &of(id, change), || (), push);
        assert_eq!(puts, [Put::Merged(id)]);
        let listed = database.store.list("queue", None, 10).unwrap();
        let repeating = listed.iter().filter(|job| job.schedule.is_some());
        let repeating: Vec<_> = repeating.map(|job| job.id).collect();
        assert_eq!((repeating, listed.len()), (vec![id], jobs));
    }
}

/// Pushes a job, and buries it in its first attempt.
fn buried(store: &PostgresStore, job: NewJob<'_>) -> JobId {
    let id = pushed(store, job);
    let claim = claim();
    store.turn("queue", &[], Some(claim)).unwrap();
    let bury = Settle {
        id,
        token: claim.token,
        act: Act::bury("no"),
    };
    store.turn("queue", &[bury], None).unwrap();
    id
}

#[test]
fn a_redrive_of_a_repeating_job_finds_the_run_of_another_that_a_concurrent_redrive_has_started() {
    let Some(database) = Database::new() else {
        return;
    };
    let [first, second] = [(); 2].map(|()| buried(&database.store, REPEATING));
    let redriven = "SELECT SCHEMA.redrive('queue', ARRAY[OPEN]);";
    let change = of(first, &format!("{redriven} {CLAIM}"));
    let redrive = |store: &PostgresStore| store.redrive("queue", &[second]).unwrap();
    assert_eq!(during(&database, &change, || (), redrive), 0);
    let dead = database.store.dead("queue", None, 10).unwrap();
    let dead: Vec<_> = dead.iter().map(|job| job.id).collect();
    assert_eq!((dead, count(&database.store)), (vec![second], 1));
}

#[test]
fn a_dead_letter_deleted_concurrently_with_its_redrive_is_gone() {
    let Some(database) = Database::new() else {
        return;
    };
    let id = buried(&database.store, JOB);
    let change = of(id, "SELECT SCHEMA.delete_dead('queue', ARRAY[OPEN])");
    let redrive = |store: &PostgresStore| store.redrive("queue", &[id]).unwrap();
    let redriven = during(&database, &change, || (), redrive);
    assert_eq!((redriven, count(&database.store)), (0, 0));
}

/// The job that goes first may be about to get another time. The others wait, however many there are.
#[test]
fn in_an_ordered_group_jobs_behind_a_locked_one_wait() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    store.limit("queue", &Limit::ordered(), true).unwrap();
    let ids = [(); 3].map(|()| pushed(store, OF_GROUP));
    let another = NewJob {
        group: Some("another"),
        ..JOB
    };
    let other_id = pushed(store, another);
    let mut other = database.session();
    let lock = of(
        ids[0],
        "BEGIN; SELECT FROM SCHEMA.job WHERE id = OPEN FOR UPDATE",
    );
    other
        .batch_execute(&lock.replace("SCHEMA", &database.schema))
        .unwrap();
    let all = Claim {
        max: 9,
        start: 9,
        ..claim()
    };
    let turn = watchdog(LIMIT, || store.turn("queue", &[], Some(all)).unwrap());
    let claimed = turn.claimed.unwrap();
    let leases: Vec<_> = claimed.leases.iter().map(|lease| lease.id).collect();
    assert_eq!(leases, [other_id]);
    assert!(claimed.first > turn.now, "it would be repeated at once");
    assert!(
        claimed.first < turn.now.after(LIMIT),
        "a claim after the lock"
    );
    let waiting = "SELECT count(*) FROM SCHEMA.job WHERE seat < 0";
    assert_eq!(database.get::<i64>(waiting), 2);
    other.batch_execute("COMMIT").unwrap();
    for id in ids {
        let claim = claim();
        let leases = store.turn("queue", &[], Some(claim)).unwrap().claimed;
        let lease = leases.unwrap().leases.remove(0);
        assert_eq!(lease.id, id);
        store
            .turn("queue", &[lease.settle(Act::Ack)], None)
            .unwrap();
    }
}

/// Its seat is free, but it goes first.
#[test]
fn a_fresh_job_does_not_overtake_a_locked_one_that_waits() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    store.limit("queue", &Limit::ordered(), true).unwrap();
    let turn = |settles: &[Settle<'_>]| -> Vec<Lease> {
        let all = Claim {
            max: 9,
            start: 9,
            ..claim()
        };
        let turn = watchdog(LIMIT, || store.turn("queue", settles, Some(all)).unwrap());
        turn.claimed.unwrap().leases
    };
    let ids = [(); 2].map(|()| pushed(store, OF_GROUP));
    let first = turn(&[]).remove(0);
    assert_eq!(first.id, ids[0]);
    let last = pushed(store, OF_GROUP);
    let mut other = database.session();
    let lock = "BEGIN; SELECT FROM SCHEMA.job WHERE id = OPEN FOR UPDATE";
    let lock = of(ids[1], lock).replace("SCHEMA", &database.schema);
    other.batch_execute(&lock).unwrap();
    assert!(turn(&[first.settle(Act::Ack)]).is_empty());
    other.batch_execute("COMMIT").unwrap();
    let second = turn(&[]).remove(0);
    assert_eq!(second.id, ids[1]);
    let third = turn(&[second.settle(Act::Ack)]).remove(0);
    assert_eq!(third.id, last);
}

/// In an ordered group, the next one has to wait for it.
#[test]
fn the_seat_of_a_settled_job_goes_to_the_next_one_that_is_not_locked() {
    for rule in [Limit::ordered(), Limit::per_group(1), Limit::fair()] {
        let Some(database) = Database::new() else {
            return;
        };
        let store = &database.store;
        store.limit("queue", &rule, true).unwrap();
        let ids = [(); 4].map(|()| pushed(store, OF_GROUP));
        let claim_one = |settles: &[Settle<'_>]| -> Vec<Lease> {
            let turn = watchdog(LIMIT, || {
                store.turn("queue", settles, Some(claim())).unwrap()
            });
            turn.claimed.unwrap().leases
        };
        let first = claim_one(&[]).remove(0);
        assert_eq!(first.id, ids[0]);
        if rule == Limit::fair() {
            // The second one is available, and the others wait.
            assert_eq!(claim_one(&[])[0].id, ids[1]);
            let later = ids[2..].iter().map(|id| id.as_u64().to_string());
            let later = later.collect::<Vec<_>>().join(", ");
            let wait = format!(
                "UPDATE SCHEMA.job j SET seat = -q.group_rule, due = {} FROM SCHEMA.queue q WHERE j.id IN ({later})",
                i64::MAX
            );
            database.sql(&wait);
            database.sql("INSERT INTO SCHEMA.group_left SELECT id, 'account 7' FROM SCHEMA.queue");
        } else {
            assert!(claim_one(&[]).is_empty());
        }
        let at = if rule == Limit::fair() { 2 } else { 1 };
        let mut other = database.session();
        let lock = of(
            ids[at],
            "BEGIN; SELECT FROM SCHEMA.job WHERE id = OPEN FOR UPDATE",
        );
        other
            .batch_execute(&lock.replace("SCHEMA", &database.schema))
            .unwrap();
        let leases = claim_one(&[first.settle(Act::Ack)]);
        if rule == Limit::ordered() {
            assert!(leases.is_empty());
            other.batch_execute("COMMIT").unwrap();
            assert_eq!(claim_one(&[])[0].id, ids[at]);
        } else {
            assert_eq!(leases[0].id, ids[at + 1], "{rule:?}");
            other.batch_execute("COMMIT").unwrap();
        }
        if rule == Limit::fair() {
            assert_eq!(claim_one(&[])[0].id, ids[at]);
        }
        let left = "SELECT count(*) FROM SCHEMA.group_left";
        assert_eq!(database.get::<i64>(left), 0);
    }
}

/// In a transaction that does not see the other job, but conflicts with it in the index.
#[test]
fn a_job_that_returns_while_another_of_its_key_commits_stays_separate() {
    let Some(database) = Database::new() else {
        return;
    };
    let id = pushed(&database.store, KEYED);
    database.store.turn("queue", &[], Some(claim())).unwrap();
    let mut own = database.session();
    own.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT")
        .unwrap();
    pushed(&database.store, KEYED);
    let reopen = of(id, "SELECT SCHEMA.reopen(OPEN)").replace("SCHEMA", &database.schema);
    own.batch_execute(&reopen).unwrap();
    own.batch_execute("COMMIT").unwrap();
    let run = of(id, "SELECT run FROM SCHEMA.job WHERE id = OPEN");
    assert_eq!(database.get::<i64>(&run).cast_unsigned(), id.as_u64());
}

/// Later statements of the transaction wait for locks as long as before.
#[test]
fn a_returning_job_restores_the_lock_timeout() {
    let Some(database) = Database::new() else {
        return;
    };
    let id = pushed(&database.store, KEYED);
    database.store.turn("queue", &[], Some(claim())).unwrap();
    let mut own = database.session();
    let mut transaction = own.transaction().unwrap();
    transaction
        .batch_execute("SET LOCAL lock_timeout = '7s'")
        .unwrap();
    let reopen = of(id, "SELECT SCHEMA.reopen(OPEN)").replace("SCHEMA", &database.schema);
    transaction.batch_execute(&reopen).unwrap();
    let limit: String = transaction
        .query_one("SHOW lock_timeout", &[])
        .unwrap()
        .get(0);
    assert_eq!(limit, "7s");
}

/// Pushes `number` jobs of each kind, one after the other.
fn push_kinds(store: &PostgresStore, kinds: &[&str], number: usize) {
    let of_kind = |kind| NewJob {
        kind: Some(kind),
        ..JOB
    };
    let jobs: Vec<_> = kinds.iter().map(|kind| of_kind(*kind)).collect();
    store.enqueue("queue", &jobs.repeat(number)).unwrap();
}

/// Without waiting for another transaction.
fn claimed_of(
    store: &PostgresStore,
    settles: &[Settle<'_>],
    kinds: &[&str],
    max: u32,
) -> Vec<Lease> {
    let kinds = kinds.iter().map(|kind| KindRoom { kind, room: max });
    let kinds: Vec<_> = kinds.collect();
    let claim = Claim {
        kinds: Some(&kinds),
        max,
        start: max,
        ..claim()
    };
    let turn = watchdog(LIMIT, || store.turn("queue", settles, Some(claim)).unwrap());
    turn.claimed.unwrap().leases
}

/// And lock no other jobs than those that they claim, without limits and with them.
#[test]
fn claims_of_overlapping_lists_at_the_same_time_share_the_jobs() {
    for limit in [
        None,
        Some(Limit::per_kind("b", 100)),
        Some(Limit::ordered()),
    ] {
        let Some(database) = Database::new() else {
            return;
        };
        let store = &database.store;
        if let Some(limit) = &limit {
            store.limit("queue", limit, true).unwrap();
        }
        push_kinds(store, &["a", "b", "c"], 8);
        let turn = "BEGIN; SELECT SCHEMA.turn('queue', true, true, '{}', '{}', '{}', '{}', '{}', '{}', NULL,
            gen_random_uuid(), 10, 10, 0, 0, 30000000, true, NULL, '{b, a}', '{9, 9}')";
        let mut other = database.session();
        other
            .batch_execute(&turn.replace("SCHEMA", &database.schema))
            .unwrap();
        let free = "SELECT count(*) FROM (SELECT FROM SCHEMA.job FOR UPDATE SKIP LOCKED) j";
        assert_eq!(database.get::<i64>(free), 14);
        let has_lock = limit.is_some();
        if has_lock {
            // Claims under limits come one after the other.
            other.batch_execute("COMMIT").unwrap();
        }
        let leases = claimed_of(store, &[], &["b", "c"], 20);
        let of = |kind| {
            let is_its = |lease: &&Lease| lease.kind.as_deref() == Some(kind);
            leases.iter().filter(is_its).count()
        };
        assert_eq!([of("a"), of("b"), of("c")], [0, 3, 8], "{limit:?}");
        if !has_lock {
            other.batch_execute("COMMIT").unwrap();
        }
        let rest = claimed_of(store, &[], &["a", "b", "c"], 20);
        let kinds: BTreeSet<_> = rest.iter().map(|lease| lease.kind.as_deref()).collect();
        assert_eq!((rest.len(), kinds), (3, BTreeSet::from([Some("a")])));
    }
}

/// It would wait for a transaction that has nothing to do with its own jobs.
#[test]
fn a_kind_whose_jobs_are_locked_leaves_its_share_of_a_claim_to_the_others() {
    for limit in [None, Some(Limit::ordered())] {
        let Some(database) = Database::new() else {
            return;
        };
        let store = &database.store;
        if let Some(limit) = &limit {
            store.limit("queue", limit, true).unwrap();
        }
        push_kinds(store, &["a"], 20);
        push_kinds(store, &["b", "c"], 5);
        let mut other = database.session();
        let lock = "BEGIN; SELECT FROM SCHEMA.job WHERE kind = 'a' FOR UPDATE";
        other
            .batch_execute(&lock.replace("SCHEMA", &database.schema))
            .unwrap();
        let claim = || claimed_of(store, &[], &["a", "b", "c"], 8);
        let kinds = |leases: &[Lease]| -> Vec<String> {
            let kinds = leases.iter().filter_map(|lease| lease.kind.clone());
            kinds.collect()
        };
        assert_eq!(kinds(&claim()), ["b", "c"].repeat(4), "{limit:?}");
        let turn = store.turn("queue", &[], None).unwrap();
        let list = [KindRoom { kind: "a", room: 9 }];
        let of_a = Claim {
            kinds: Some(&list),
            ..self::claim()
        };
        let claimed = store.turn("queue", &[], Some(of_a)).unwrap().claimed;
        let first = claimed.unwrap().first;
        assert!(first > turn.now, "it would be repeated at once");
        assert!(first < turn.now.after(LIMIT), "a claim after the lock");
        other.batch_execute("COMMIT").unwrap();
        assert_eq!(kinds(&claim()), ["a"; 8], "{limit:?}");
    }
}

/// With acknowledgements in the same turns, until none is left.
#[test]
fn threads_with_overlapping_lists_get_each_job_once() {
    const THREADS: usize = 4;
    const KINDS: [&str; 5] = ["a", "b", "c", "d", "e"];
    const EACH: usize = 60;
    let Some(database) = Database::new() else {
        return;
    };
    push_kinds(&database.store, &KINDS, EACH);
    let mut rng = Rng::from_env();
    let work = |store: PostgresStore, mut rng: Rng| {
        let (mut got, mut settles) = (Vec::new(), Vec::new());
        while count(&store) > 0 {
            let listed = KINDS.iter().copied().filter(|_| !rng.chance(3));
            let listed: Vec<_> = listed.collect();
            let leases = claimed_of(&store, &settles, &listed, 7);
            settles = leases.iter().map(|lease| lease.settle(Act::Ack)).collect();
            got.extend(leases.iter().map(|lease| lease.id));
        }
        got
    };
    let got = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (open, rng) = (database.opener(), Rng::new(rng.next_u64()));
                scope.spawn(move || work(open(), rng))
            })
            .collect();
        let got = threads.into_iter().flat_map(|it| it.join().unwrap());
        got.collect::<Vec<_>>()
    });
    let different: BTreeSet<_> = got.iter().collect();
    let all = KINDS.len() * EACH;
    assert_eq!((got.len(), different.len()), (all, all));
}

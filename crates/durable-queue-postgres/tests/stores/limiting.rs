//! Limits of kinds and groups while other transactions are open, and turns of queues without limits.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use ::postgres::Client;
use ::postgres::error::SqlState;
use durable_queue::store::{Act, Claimed, Lease, Verdict};
use durable_queue::{Limit, Merge, NewJob, PushIn, Store, StoreTime, When, Which};
use durable_queue_postgres::PostgresStore;
use testkit::{LIMIT, Rng, watchdog};

use super::Database;
use super::planning::{named_store, read_by};
use super::racing::during;
use crate::alike::{JOB, all_calls, claim_of, settle};

const KIND: &str = "mail";
const MAIL: NewJob<'_> = NewJob {
    kind: Some(KIND),
    ..JOB
};
const OF_GROUP: NewJob<'_> = NewJob {
    group: Some("account 7"),
    ..JOB
};
const LATER: When = When::After(Duration::from_secs(10_000));
const KEYED: NewJob<'_> = NewJob {
    key: Some(b"key"),
    merge: Merge::Latest,
    ..MAIL
};
/// The claim of another process, of one job.
const CLAIM: &str =
    "SELECT SCHEMA.turn('queue', true, true, '{}', '{}', '{}', '{}', '{}', '{}', NULL,
    gen_random_uuid(), 1, 1, 0, 0, 30000000, true, NULL, NULL, NULL)";

/// Held jobs with places.
const PLACES: &str = "SELECT count(*) FROM SCHEMA.job WHERE place > 0 AND token IS NOT NULL";

fn set(store: &impl Store, limit: &Limit) {
    store.limit("queue", limit, true).unwrap();
}

/// Without waiting for another transaction.
fn claim(store: &impl Store) -> Claimed {
    let turn = watchdog(LIMIT, || {
        store.turn("queue", &[], Some(claim_of(10))).unwrap()
    });
    turn.claimed.unwrap()
}

/// Begins a transaction with this statement.
fn begun(database: &Database, text: &str) -> Client {
    let mut other = database.session();
    let text = format!("BEGIN; {}", text.replace("SCHEMA", &database.schema));
    other.batch_execute(&text).unwrap();
    other
}

/// With a maximum of one: returns a running job; another one is parked.
fn one_runs_and_one_is_parked(store: &impl Store, parked: NewJob<'_>) -> Lease {
    set(store, &Limit::per_kind(KIND, 1));
    store.enqueue("queue", &[MAIL]).unwrap();
    let running = claim(store).leases.remove(0);
    store.enqueue("queue", &[parked]).unwrap();
    assert!(claim(store).leases.is_empty());
    running
}

#[test]
fn claims_at_the_same_time_do_not_exceed_a_maximum() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    set(store, &Limit::per_kind(KIND, 2));
    store.enqueue("queue", &[MAIL; 3]).unwrap();
    let mut waiting = 0;
    let look = || waiting = database.get::<i64>("SELECT SCHEMA.clock()");
    let turn = during(&database, CLAIM, look, |store| {
        store.turn("queue", &[], Some(claim_of(10))).unwrap()
    });
    assert_eq!(turn.claimed.unwrap().leases.len(), 1);
    // So its leases begin after those that have ended by then.
    assert!(turn.now.as_micros() >= waiting, "it claims after the wait");
}

#[test]
fn claims_at_the_same_time_do_not_exceed_a_rate() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    set(store, &Limit::rate_of_kind(KIND, 2, LIMIT * 1_000));
    store.enqueue("queue", &[MAIL; 3]).unwrap();
    let leases = during(&database, CLAIM, || (), |store| claim(store).leases);
    assert_eq!(leases.len(), 1);
}

#[test]
fn claims_at_the_same_time_do_not_exceed_the_seats_of_a_group() {
    for (rule, seats) in [(Limit::ordered(), 1), (Limit::per_group(2), 2)] {
        let Some(database) = Database::new() else {
            return;
        };
        let store = &database.store;
        set(store, &rule);
        store.enqueue("queue", &[OF_GROUP; 4]).unwrap();
        let leases = during(&database, CLAIM, || (), |store| claim(store).leases);
        assert_eq!(leases.len(), seats - 1, "{rule:?}");
    }
}

/// A claim that began before the rule commits after it.
#[test]
fn jobs_of_a_claim_that_began_before_the_rule_have_seats() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    store.enqueue("queue", &[OF_GROUP; 3]).unwrap();
    let mut other = begun(&database, CLAIM);
    watchdog(LIMIT, || set(store, &Limit::per_group(2)));
    other.batch_execute("COMMIT").unwrap();
    assert_eq!(claim(store).leases.len(), 1);
    let seats = "SELECT count(*) FROM SCHEMA.job j, SCHEMA.queue q WHERE j.seat = q.group_rule";
    assert_eq!(database.get::<i64>(seats), 2);
    // Also other tests have transactions.
    let late = "SELECT count(*) FROM SCHEMA.queue WHERE group_counted IS NOT NULL";
    watchdog(LIMIT, || {
        while database.get::<i64>(late) != 0 {
            assert!(claim(store).leases.is_empty());
        }
    });
}

/// It has no seat when its turn begins, and has one when it is settled. The job that waits must be called nevertheless.
#[test]
fn a_turn_that_began_before_the_rule_calls_the_next_job_of_the_group() {
    for act in [Act::Ack, Act::retry(LATER), Act::bury("no")] {
        let Some(database) = Database::new() else {
            return;
        };
        let store = &database.store;
        store.enqueue("queue", &[JOB, OF_GROUP]).unwrap();
        let running = claim(store).leases;
        let waiting = store.enqueue("queue", &[OF_GROUP]).unwrap()[0].id();
        let look = || {
            set(store, &Limit::per_group(1));
            assert!(claim(store).leases.is_empty(), "it waits");
        };
        // The turn waits where it settles the first job.
        let blocked = "SELECT FROM SCHEMA.job WHERE job_group IS NULL FOR UPDATE";
        let settles = [running[0].settle(Act::Ack), running[1].settle(act)];
        let turn = during(&database, blocked, look, |store| {
            store.turn("queue", &settles, None).unwrap()
        });
        assert_eq!(turn.verdicts, [Verdict::Done; 2]);
        assert_eq!(claim(store).leases[0].id, waiting, "{act:?}");
    }
}

/// A claim that began before the limit commits after it.
#[test]
fn jobs_of_a_claim_that_began_before_the_limit_count() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    store.enqueue("queue", &[MAIL; 2]).unwrap();
    let mut other = begun(&database, CLAIM);
    watchdog(LIMIT, || set(store, &Limit::per_kind(KIND, 1)));
    other.batch_execute("COMMIT").unwrap();
    assert!(claim(store).leases.is_empty());
    assert_eq!(database.get::<i64>(PLACES), 1);
}

/// The job was called under a limit that was removed, and its claim began before the next limit.
#[test]
fn jobs_called_under_a_removed_limit_count_like_others() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    let running = one_runs_and_one_is_parked(store, MAIL);
    assert_eq!(settle(store, &running, Act::Ack), Verdict::Done);
    let limit = Limit::per_kind(KIND, 1);
    store.limit("queue", &limit, false).unwrap();
    store.enqueue("queue", &[MAIL]).unwrap();
    let mut other = begun(&database, CLAIM);
    watchdog(LIMIT, || set(store, &limit));
    other.batch_execute("COMMIT").unwrap();
    assert!(claim(store).leases.is_empty());
}

/// It waits for another transaction before it claims.
#[test]
fn a_turn_that_began_before_the_limit_leaves_the_claim_to_the_next_turn() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    store.enqueue("queue", &[JOB]).unwrap();
    let running = claim(store).leases.remove(0);
    // Due before the turn began.
    let past = NewJob {
        when: StoreTime::from_micros(1).into(),
        ..MAIL
    };
    let look = || {
        set(store, &Limit::per_kind(KIND, 1));
        store.enqueue("queue", &[past]).unwrap();
        assert_eq!(claim(store).leases.len(), 1);
        store.enqueue("queue", &[past]).unwrap();
    };
    let blocked = "SELECT FROM SCHEMA.job WHERE token IS NOT NULL FOR UPDATE";
    let ack = running.settle(Act::Ack);
    let turn = during(&database, blocked, look, |store| {
        store.turn("queue", &[ack], Some(claim_of(10))).unwrap()
    });
    assert_eq!(turn.verdicts, [Verdict::Done]);
    assert!(turn.claimed.unwrap().leases.is_empty());
}

/// After that, each claim trusts the places.
#[test]
fn claims_look_for_such_jobs_until_all_earlier_transactions_have_ended() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    set(store, &Limit::per_kind(KIND, 3));
    let looks = "SELECT count(*) FROM SCHEMA.kind_limit WHERE counted IS NOT NULL";
    let mut first = begun(&database, "SELECT SCHEMA.push('first', 'job')");
    let mut other = begun(&database, "SELECT SCHEMA.push('another', 'job')");
    claim(store);
    // No transaction newer than `other` has ended when the claim notes which it waits for, unless other tests run.
    first.batch_execute("COMMIT").unwrap();
    for _ in 0..3 {
        assert_eq!(database.get::<i64>(looks), 1);
        claim(store);
    }
    other.batch_execute("COMMIT").unwrap();
    // Also those of other tests.
    watchdog(LIMIT, || {
        while database.get::<i64>(looks) != 0 {
            claim(store);
        }
    });
    store.enqueue("queue", &[MAIL; 2]).unwrap();
    for lease in claim(store).leases {
        assert_eq!(settle(store, &lease, Act::Release), Verdict::Done);
    }
    assert_eq!(claim(store).leases.len(), 2);
    assert_eq!(database.get::<i64>(PLACES), 2);
}

/// The claim waits where it notes which transactions it waits for.
#[test]
fn a_cancelled_claim_after_a_limit_ends() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    set(store, &Limit::per_kind(KIND, 1));
    let mut other = begun(&database, "SELECT FROM SCHEMA.kind_limit FOR UPDATE");
    let mut own = database.session();
    own.batch_execute("SET statement_timeout = 100").unwrap();
    let text = CLAIM.replace("SCHEMA", &database.schema);
    let error = watchdog(LIMIT, || own.batch_execute(&text).unwrap_err());
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
    other.batch_execute("COMMIT").unwrap();
    claim(store);
}

/// The extension is not committed yet.
#[test]
fn an_expired_lease_that_is_being_extended_keeps_its_place() {
    let Some(database) = Database::with_manual_clock() else {
        return;
    };
    let store = &database.store;
    let running = one_runs_and_one_is_parked(store, MAIL);
    database.sql("UPDATE SCHEMA.test_clock SET time = time + 3600000000");
    let extend = "UPDATE SCHEMA.job SET due = due + 7200000000 WHERE token IS NOT NULL";
    let mut other = begun(&database, extend);
    let turn = store.turn("queue", &[], Some(claim_of(10))).unwrap();
    let claimed = turn.claimed.unwrap();
    assert!(claimed.leases.is_empty());
    assert!(claimed.first > turn.now, "it would be repeated at once");
    other.batch_execute("COMMIT").unwrap();
    assert!(claim(store).leases.is_empty());
    assert_eq!(settle(store, &running, Act::Ack), Verdict::Done);
    assert_eq!(claim(store).leases.len(), 1);
}

/// The merge takes the place from a claim ahead. It must not hold the lock of the limits until its transaction ends.
#[test]
fn a_merge_in_a_transaction_of_the_application_does_not_delay_claims() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    set(store, &Limit::per_kind(KIND, 1));
    store.enqueue("queue", &[KEYED]).unwrap();
    let ahead = durable_queue::store::Claim {
        start: 0,
        ahead: 1,
        ..claim_of(1)
    };
    let turn = store.turn("queue", &[], Some(ahead)).unwrap();
    assert_eq!(turn.claimed.unwrap().leases.len(), 1);
    let waiting = store.enqueue("queue", &[MAIL]).unwrap()[0].id();
    assert!(claim(store).leases.is_empty());
    let later = NewJob {
        when: (LIMIT * 1_000).into(),
        ..KEYED
    };
    let mut own = database.session();
    let mut transaction = own.transaction().unwrap();
    store
        .enqueue_in(&mut transaction, "queue", &[later])
        .unwrap();
    assert!(claim(store).leases.is_empty());
    transaction.commit().unwrap();
    let leases = claim(store).leases;
    assert_eq!((leases.len(), leases[0].id), (1, waiting));
}

/// The removal does not wait. Until the job can be called, the limit has no effect on others.
#[test]
fn a_parked_job_that_is_locked_when_its_limit_is_removed_is_called_by_a_later_claim() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    let running = one_runs_and_one_is_parked(store, KEYED);
    let mut other = begun(
        &database,
        "SELECT FROM SCHEMA.job WHERE place < 0 FOR UPDATE",
    );
    let limit = Limit::per_kind(KIND, 1);
    watchdog(LIMIT, || store.limit("queue", &limit, false).unwrap());
    assert_eq!(store.limits("queue").unwrap(), []);
    store.enqueue("queue", &[MAIL]).unwrap();
    let turn = store.turn("queue", &[], Some(claim_of(10))).unwrap();
    let claimed = turn.claimed.unwrap();
    assert_eq!(claimed.leases.len(), 1);
    let soon = turn.now.after(Duration::from_secs(1));
    assert!(claimed.first <= soon, "a claim after the other transaction");
    other.batch_execute("COMMIT").unwrap();
    assert_eq!(claim(store).leases.len(), 1);
    assert_eq!(settle(store, &running, Act::Ack), Verdict::Done);
    let left = "SELECT count(*) FROM SCHEMA.queue WHERE limited";
    assert_eq!(database.get::<i64>(left), 0);
    assert_eq!(
        database.get::<i64>("SELECT count(*) FROM SCHEMA.kind_limit"),
        0
    );
}

/// In turns with settles, claims of all sorts, and an expired lease.
#[test]
fn turns_without_limits_take_no_lock_and_read_no_limits() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    all_calls(store, 1);
    store.enqueue("queue", &[JOB; 3]).unwrap();
    let locks = |database: &Database| -> i64 {
        let mut own = begun(database, CLAIM);
        let locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()
            AND (locktype = 'advisory' OR relation = 'SCHEMA.kind_limit'::regclass)";
        let locks = locks.replace("SCHEMA", &database.schema);
        own.query_one(&locks, &[]).unwrap().get(0)
    };
    assert_eq!(locks(&database), 0);
    set(store, &Limit::ordered());
    assert!(locks(&database) >= 1, "the lock");
    store.limit("queue", &Limit::ordered(), false).unwrap();
    claim(store);
    assert_eq!(locks(&database), 0);
    set(store, &Limit::per_kind(KIND, 2));
    assert!(locks(&database) >= 2, "the lock and the table");
    store
        .limit("queue", &Limit::per_kind(KIND, 2), false)
        .unwrap();
    assert_eq!(locks(&database), 0);
}

/// With plans made when there was one job.
#[test]
fn claims_and_settles_do_not_read_parked_jobs() {
    const PARKED: usize = 5_000;
    const TURNS: usize = 20;
    let Some(database) = Database::new() else {
        return;
    };
    let name = format!("{}_parked", database.schema);
    let store = named_store(&database, &name);
    database.sql("ALTER TABLE SCHEMA.job SET (autovacuum_enabled = off)");
    one_runs_and_one_is_parked(&store, MAIL);
    set(&store, &Limit::rate_of_kind(KIND, 1_000_000, LIMIT));
    database.sql("ANALYZE SCHEMA.job");
    store.enqueue("queue", &vec![MAIL; PARKED]).unwrap();
    let park = || claim(&store).leases.len();
    assert_eq!((0..6).map(|_| park()).sum::<usize>(), 0);
    // By number, because this session may report its reads after `before`.
    database.sql("UPDATE SCHEMA.job SET due = 1 WHERE id = (SELECT min(id) FROM SCHEMA.job)");
    drop(store);
    let before = read_by(&database, &name);
    let store = named_store(&database, &name);
    for _ in 0..TURNS {
        let leases = claim(&store).leases;
        assert_eq!(leases.len(), 1);
        assert_eq!(settle(&store, &leases[0], Act::Ack), Verdict::Done);
        let next = store.list("queue", None, 1).unwrap().remove(0);
        assert!(store.cancel("queue", Which::Id(next.id)).unwrap().is_gone());
    }
    drop(store);
    let after = read_by(&database, &name);
    let (rows, blocks) = (after.0 - before.0, after.1 - before.1);
    assert!(rows > 100, "{rows} is not what was read");
    assert!(
        rows < 2_000 && blocks < 10_000,
        "{rows} rows, {blocks} blocks"
    );
}

/// Neither waiting ones, nor delayed ones that no claim has looked at, nor those of a stopped kind. With plans made when there was
/// one job.
#[test]
fn claims_and_settles_do_not_read_other_jobs_of_their_group() {
    const MANY: usize = 3_000;
    const TURNS: usize = 20;
    for rule in [Limit::ordered(), Limit::per_group(2), Limit::fair()] {
        let Some(database) = Database::new() else {
            return;
        };
        let name = format!("{}_waiting", database.schema);
        let store = named_store(&database, &name);
        database.sql("ALTER TABLE SCHEMA.job SET (autovacuum_enabled = off)");
        set(&store, &Limit::per_kind(KIND, 0));
        let stopped = NewJob {
            kind: Some(KIND),
            ..OF_GROUP
        };
        // Before the rule is set: with an ordered group, they would keep their seats.
        store.enqueue("queue", &vec![stopped; MANY]).unwrap();
        (0..4).for_each(|_| assert!(claim(&store).leases.is_empty()));
        set(&store, &rule);
        store.enqueue("queue", &[OF_GROUP]).unwrap();
        database.sql("ANALYZE SCHEMA.job");
        let mut held = claim(&store).leases;
        assert_eq!(held.len(), 1);
        let later = NewJob {
            when: LATER,
            urgent: true,
            ..OF_GROUP
        };
        store.enqueue("queue", &vec![later; MANY]).unwrap();
        store.enqueue("queue", &vec![OF_GROUP; MANY]).unwrap();
        let one = || {
            let turn = store.turn("queue", &[], Some(claim_of(1))).unwrap();
            turn.claimed.unwrap().leases
        };
        for _ in 0..6 {
            held.extend(one());
        }
        assert!(store.stats("queue").unwrap().due <= 1, "the others wait");
        // Calls the next job, or reads for it, in each turn.
        let mut last = held.remove(0);
        drop(store);
        let before = read_by(&database, &name);
        let store = named_store(&database, &name);
        for _ in 0..TURNS {
            let ack = [last.settle(Act::Ack)];
            let turn = store.turn("queue", &ack, Some(claim_of(1))).unwrap();
            assert_eq!(turn.verdicts, [Verdict::Done]);
            last = turn.claimed.unwrap().leases.remove(0);
            // A fresh job, which finds no seat, or is the first one.
            store.enqueue("queue", &[OF_GROUP]).unwrap();
            let next = store.list("queue", None, 1).unwrap().remove(0);
            assert!(store.cancel("queue", Which::Id(next.id)).unwrap().is_gone());
        }
        drop(store);
        let after = read_by(&database, &name);
        let (rows, blocks) = (after.0 - before.0, after.1 - before.1);
        assert!(rows > 100, "{rows} is not what was read");
        assert!(
            rows < 2_000 && blocks < 10_000,
            "{rows} rows, {blocks} blocks with {rule:?}"
        );
    }
}

/// Settles, claims, cancels, resets, pushes and changes of limits.
#[test]
fn concurrent_calls_of_all_sorts_do_not_exceed_a_maximum_nor_block_each_other() {
    const THREADS: u64 = 4;
    const ROUNDS: usize = 60;
    const MOST: u32 = 3;
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    set(store, &Limit::per_kind(KIND, MOST));
    let is_over = AtomicBool::new(false);
    let held = "SELECT count(*) FROM SCHEMA.job WHERE kind = 'mail' AND token IS NOT NULL";
    let mut rng = Rng::from_env();
    watchdog(LIMIT, || {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    let (open, rng) = (database.opener(), Rng::new(rng.next_u64()));
                    scope.spawn(move || disturb(&open(), rng, MOST, ROUNDS))
                })
                .collect();
            scope.spawn(|| {
                // Relaxed: no other memory depends on it.
                while !is_over.load(Relaxed) {
                    let held: i64 = database.get(held);
                    assert!(held <= i64::from(MOST), "{held} are held");
                    thread::yield_now();
                }
            });
            let results: Vec<_> = threads
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect();
            is_over.store(true, Relaxed);
            assert!(results.iter().all(Result::is_ok));
        });
    });
}

/// No call may fail, so no deadlock may be detected more often than a call is repeated.
fn disturb(store: &PostgresStore, mut rng: Rng, most: u32, rounds: usize) {
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    let mut held: Vec<Lease> = Vec::new();
    for _ in 0..rounds {
        let key = keys[rng.below(3)];
        let job = NewJob {
            key: rng.chance(2).then_some(key),
            group: rng.chance(2).then(|| ["a", "b"][rng.below(2)]),
            urgent: rng.chance(4),
            when: Duration::from_millis(rng.below(4) as u64).into(),
            ..KEYED
        };
        match rng.below(8) {
            0 | 1 => _ = store.enqueue("queue", &[job, MAIL]).unwrap(),
            2 => _ = store.cancel("queue", Which::Key(key)).unwrap(),
            3 => _ = store.reset("queue", Which::Key(key), When::NOW).unwrap(),
            4 => {
                let limits = [
                    [Limit::per_group(2), Limit::ordered(), Limit::fair()][rng.below(3)].clone(),
                    Limit::per_kind(KIND, most),
                    Limit::rate_of_kind(KIND, 1_000, Duration::from_secs(1)),
                ];
                let is_set = rng.chance(2);
                let at = rng.below(3);
                store
                    .limit("queue", &limits[at], is_set || at == 1)
                    .unwrap();
            }
            _ => {
                let acts = [Act::Ack, Act::Release, Act::retry(When::NOW)];
                let settles: Vec<_> = held
                    .drain(..)
                    .map(|lease| lease.settle(acts[rng.below(3)]))
                    .collect();
                let turn = store.turn("queue", &settles, Some(claim_of(2))).unwrap();
                held.extend(turn.claimed.unwrap().leases);
            }
        }
    }
    let release = held.iter().map(|lease| lease.settle(Act::Release));
    let release: Vec<_> = release.collect();
    store.turn("queue", &release, None).unwrap();
}

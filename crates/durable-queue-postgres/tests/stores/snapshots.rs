//! While a transaction holds an old snapshot, as a backup does, finished jobs stay in the indexes.

use std::sync::mpsc::channel;
use std::time::Duration;

use ::postgres::Client;
use durable_queue::store::{Act, Claim, Claimed, KindRoom, Settle};
use durable_queue::{Limit, NewJob, Notifier, Reset, Store, StoreTime};
use durable_queue_postgres::PostgresStore;
use durable_queue_testing::ManualStoreClock;
use durable_queue_testing::conformance::Fixture as _;

use super::Database;
use super::planning::{entries_read, named_store};
use crate::alike::{JOB, claim_of};

/// This many finished jobs lead to a floor.
const MANY: usize = 2_000;
const BATCH: u32 = 100;
/// How long a floor is valid.
const SEEK: Duration = Duration::from_secs(1);

/// Minimum distance of a floor from the present.
const SLACK: Duration = Duration::from_millis(100);

/// Holds a snapshot until dropped.
fn snapshot(database: &Database) -> Client {
    let mut holder = database.session();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM SCHEMA.queue";
    let begin = begin.replace("SCHEMA", &database.schema);
    holder.batch_execute(&begin).unwrap();
    holder
}

fn acks(claimed: &Claimed) -> Vec<Settle<'static>> {
    let ack = claimed.leases.iter().map(|lease| lease.settle(Act::Ack));
    ack.collect()
}

fn claim(store: &PostgresStore, settles: &[Settle<'_>], claim: Claim) -> Claimed {
    store
        .turn("queue", settles, Some(claim))
        .unwrap()
        .claimed
        .unwrap()
}

/// Runs this many existing jobs in less than a `SEEK`.
fn work_off(database: &Database, store: &PostgresStore, jobs: usize) {
    let mut settles = Vec::new();
    for _ in 0..jobs / BATCH as usize {
        database.advance(Duration::from_millis(1)); // Otherwise all leases would end at the same time.
        let claimed = claim(store, &settles, claim_of(BATCH));
        assert_eq!(claimed.leases.len(), BATCH as usize);
        settles = acks(&claimed);
    }
    store.turn("queue", &settles, None).unwrap();
}

/// Entries of indexes, for jobs due at the same time.
#[test]
fn with_an_old_snapshot_a_claim_does_not_read_all_jobs_done_since() {
    let read = |jobs: usize, urgent, is_limited| {
        let database = Database::with_manual_clock()?;
        database.sql("ALTER TABLE SCHEMA.job SET (autovacuum_enabled = off)");
        let name = format!("{}_pushes", database.schema);
        let store = named_store(&database, &name);
        if is_limited {
            store.limit("queue", &Limit::ordered(), true).unwrap();
        }
        store
            .enqueue("queue", &vec![NewJob { urgent, ..JOB }; jobs])
            .unwrap();
        drop(store);
        database.advance(SLACK);
        let before = entries_read(&database, &name);
        let holder = snapshot(&database);
        let name = format!("{}_claims", database.schema);
        let store = named_store(&database, &name);
        work_off(&database, &store, jobs);
        drop(store);
        let read = entries_read(&database, &name) - before;
        drop(holder);
        Some(usize::try_from(read).unwrap() / (jobs / BATCH as usize))
    };
    for (urgent, is_limited) in [(false, false), (true, false), (false, true), (true, true)] {
        let read = |jobs| read(jobs, urgent, is_limited);
        let (Some(few), Some(many)) = (read(MANY), read(4 * MANY)) else {
            return;
        };
        assert!(few > BATCH as usize, "{few} is not what was read");
        assert!(
            many < few + BATCH as usize,
            "urgent: {urgent}, with a rule: {is_limited}: {few} entries a claim for {MANY} jobs, {many} for four times as many"
        );
    }
}

/// Returns a store that claims from a floor on: many jobs were done, and more than `MANY` are due.
fn with_floor(limits: &[Limit]) -> Option<(Database, PostgresStore, Client)> {
    let database = Database::with_manual_clock()?;
    let store = database.another_store();
    for limit in limits {
        store.limit("queue", limit, true).unwrap();
    }
    store.enqueue("queue", &vec![JOB; 2 * MANY]).unwrap();
    database.advance(SLACK);
    let holder = snapshot(&database);
    work_off(&database, &store, MANY);
    Some((database, store, holder))
}

const PAST: StoreTime = StoreTime::from_micros(1);

fn past(payload: &[u8]) -> NewJob<'_> {
    NewJob {
        payload,
        when: PAST.into(),
        ..JOB
    }
}

/// The claim's result limits the time until the next one.
#[test]
fn an_unannounced_job_below_the_floor_is_claimed_within_a_second() {
    for limits in [&[][..], &[Limit::ordered()]] {
        let Some((database, store, _holder)) = with_floor(limits) else {
            return;
        };
        database.store.enqueue("queue", &[past(b"past")]).unwrap();
        let claimed = claim(&store, &[], claim_of(1));
        assert_eq!(claimed.leases[0].payload, b"job", "it has a floor");
        let all = Claim {
            lease: SEEK * 60,
            ..claim_of(u32::try_from(2 * MANY).unwrap())
        };
        let rest = claim(&store, &[], all);
        assert!(rest.leases.iter().all(|lease| lease.payload == b"job"));
        let latest = ManualStoreClock::START.after(SLACK * 2 + SEEK);
        assert!(rest.first <= latest, "{:?} is too late", rest.first);
        database.advance(SEEK);
        let claimed = claim(&store, &[], claim_of(1));
        assert_eq!(claimed.leases[0].payload, b"past");
        database.advance(SEEK * 60);
        let claimed = claim(&store, &[], claim_of(1));
        assert_eq!(claimed.leases.len(), 1, "of the leases that have ended");
    }
}

/// It learns of them by its own call, or by a notification of the application's transaction.
#[test]
fn an_announced_job_below_the_floor_is_claimed_at_once() {
    let Some((database, store, _holder)) = with_floor(&[]) else {
        return;
    };
    store.enqueue("queue", &[past(b"one")]).unwrap();
    let claimed = claim(&store, &[], claim_of(1));
    assert_eq!(claimed.leases[0].payload, b"one");
    store
        .enqueue("queue", &[past(b"two"), past(b"three")])
        .unwrap();
    let claimed = claim(&store, &[], claim_of(2));
    let payloads = claimed.leases.iter().map(|lease| &lease.payload[..]);
    assert!(payloads.eq([&b"two"[..], b"three"]));
    let put = store.enqueue("queue", &[past(b"four")]).unwrap();
    let earlier = StoreTime::from_micros(7).into();
    let reset = store.reset("queue", put[0].id().into(), earlier);
    assert_eq!(reset.unwrap(), Reset::Moved);
    let claimed = claim(&store, &[], claim_of(2));
    let payloads = claimed.leases.iter().map(|lease| &lease.payload[..]);
    assert!(payloads.eq([&b"four"[..], b"job"]));
    let (heard, times) = channel();
    let notifier = Notifier::new(move |due| _ = heard.send(due));
    let watch = store.watch("queue", notifier).unwrap();
    let claimed = claim(&store, &[], claim_of(1));
    assert_eq!(claimed.leases[0].payload, b"job");
    database.sql("SELECT SCHEMA.push('queue', 'five', 'epoch')");
    testkit::watchdog(testkit::LIMIT, || times.recv().unwrap());
    let claimed = claim(&store, &[], claim_of(1));
    assert_eq!(claimed.leases[0].payload, b"five");
    drop(watch);
}

/// Also within the same turn.
#[test]
fn a_job_returned_below_the_floor_by_a_settle_is_claimed_at_once() {
    let Some((_database, store, _holder)) = with_floor(&[]) else {
        return;
    };
    let key = Some(&b"key"[..]);
    let keyed = |payload| NewJob {
        key,
        ..past(payload)
    };
    store.enqueue("queue", &[keyed(b"keyed")]).unwrap();
    let mut held = claim(&store, &[], claim_of(1)).leases.remove(0);
    let acts = [
        Act::retry(PAST.into()),
        Act::Release,
        Act::retry(PAST.into()),
    ];
    for (round, act) in acts.into_iter().enumerate() {
        // The floor is above it again.
        assert_eq!(claim(&store, &[], claim_of(1)).leases[0].payload, b"job");
        let settle = |act| held.settle(act);
        let claimed = if round == 2 {
            store.turn("queue", &[settle(act)], None).unwrap();
            claim(&store, &[], claim_of(1))
        } else {
            claim(&store, &[settle(act)], claim_of(1))
        };
        held = claimed.leases.into_iter().next().unwrap();
        assert_eq!(held.payload, b"keyed", "{act:?}");
    }
}

/// By the settle that makes room, before the claim of the same turn.
#[test]
fn a_called_job_below_the_floor_is_claimed_at_once() {
    let (kind, group) = (Some("mail"), Some("account 7"));
    for limit in [
        Limit::per_kind("mail", 1),
        Limit::ordered(),
        Limit::per_group(1),
    ] {
        let Some((_database, store, _holder)) = with_floor(std::slice::from_ref(&limit)) else {
            return;
        };
        let limited = [past(b"one"), past(b"two")];
        let limited = limited.map(|job| NewJob { kind, group, ..job });
        store.enqueue("queue", &limited).unwrap();
        let one = claim(&store, &[], claim_of(1));
        assert_eq!(one.leases[0].payload, b"one");
        // Parks the other one, or makes it wait. The floor is above it again.
        assert_eq!(claim(&store, &[], claim_of(1)).leases[0].payload, b"job");
        let claimed = claim(&store, &acks(&one), claim_of(1));
        assert_eq!(claimed.leases[0].payload, b"two", "{limit:?}");
    }
}

/// It claims from the beginning. The next claim of all jobs seeks.
#[test]
fn a_claim_that_lists_kinds_neither_uses_the_floor_nor_raises_it() {
    let Some((database, store, _holder)) = with_floor(&[]) else {
        return;
    };
    let kind = "mail";
    let mail = |payload| NewJob {
        kind: Some(kind),
        ..past(payload)
    };
    let mails = [mail(b"one"), mail(b"two")];
    database.store.enqueue("queue", &mails).unwrap();
    let claimed = claim(&store, &[], claim_of(1));
    assert_eq!(claimed.leases[0].payload, b"job", "it has a floor");
    let kinds = [KindRoom { kind, room: 1 }];
    let listed = Claim {
        kinds: Some(&kinds),
        ..claim_of(9)
    };
    let one = claim(&store, &[], listed);
    assert_eq!(
        (one.leases.len(), &one.leases[0].payload[..]),
        (1, &b"one"[..])
    );
    let claimed = claim(&store, &[], claim_of(1));
    assert_eq!(claimed.leases[0].payload, b"two");
}

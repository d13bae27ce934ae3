//! Limits of kinds at their extremes, and in partly deleted keys.

use std::time::Duration;

use ::redis::cmd;
use durable_queue::store::{Act, Lease, PARK_LIMIT, Verdict};
use durable_queue::{ErrorKind, JobId, Limit, NewJob, Reset, Store, When};
use durable_queue_redis::KEY_LIMIT;
use durable_queue_testing::conformance::Fixture as _;
use durable_queue_testing::{ManualStoreClock, SimStore};
use sync_shim::ManualClock;

use super::Keys;
use crate::alike::{JOB, claimed, settle};

const MAIL: NewJob<'_> = NewJob {
    kind: Some("mail"),
    ..JOB
};

fn set(store: &impl Store, limit: &Limit) {
    store.limit("queue", limit, true).unwrap();
}

/// With a maximum of one: one mail is held, and the others are parked.
fn one_of(keys: &Keys, mails: u32) -> Lease {
    let store = &keys.store;
    set(store, &Limit::per_kind("mail", 1));
    store.enqueue("queue", &vec![MAIL; mails as usize]).unwrap();
    let lease = claimed(store, 1).remove(0);
    while store.stats("queue").unwrap().due > 0 {
        assert!(claimed(store, 10).is_empty());
    }
    lease
}

fn part(keys: &Keys, name: &str) -> String {
    keys.key(&format!("{{queue}}:{name}"))
}

fn id_of(lease: u64) -> String {
    format!("{lease:016}")
}

fn remove(keys: &Keys, id: &str) {
    keys.run::<()>(cmd("ZREM").arg(part(keys, "due")).arg(id));
    for name in ["job", "payload", "extra"] {
        keys.run::<()>(cmd("HDEL").arg(part(keys, name)).arg(id));
    }
}

#[test]
fn a_called_job_that_was_deleted_reserves_no_place() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let first = one_of(&keys, 3);
    let [second, third] = [1, 2].map(|number| first.id.as_u64() + number);
    assert_eq!(settle(&keys.store, &first, Act::Ack), Verdict::Done);
    remove(&keys, &id_of(second));
    let lease = claimed(&keys.store, 1).remove(0);
    assert_eq!(lease.id.as_u64(), third);
    assert_eq!(settle(&keys.store, &lease, Act::Ack), Verdict::Done);
    assert!(!keys.run::<bool>(cmd("EXISTS").arg(part(&keys, "place"))));
}

#[test]
fn a_parked_job_whose_record_was_deleted_is_not_called() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let first = one_of(&keys, 3);
    let [second, third] = [1, 2].map(|number| first.id.as_u64() + number);
    let id = id_of(second);
    keys.run::<()>(cmd("HDEL").arg(part(&keys, "job")).arg(&id));
    let later = 8_000_000_000_000_000_u64;
    keys.run::<()>(cmd("ZADD").arg(part(&keys, "due")).arg(later).arg(&id));
    assert_eq!(settle(&keys.store, &first, Act::Ack), Verdict::Done);
    let lease = claimed(&keys.store, 3).remove(0);
    assert_eq!(lease.id.as_u64(), third);
    let listed = keys.store.list("queue", None, 3).unwrap();
    assert_eq!(listed[1].due.as_micros(), 8_000_000_000_000_000);
}

/// The same as in the simulated store, whose numbers are exact.
#[test]
fn extreme_rates_are_finite_and_listed_as_they_were_set() {
    const LONG: Duration = Duration::from_secs(86_400_000);
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let (least, most) = (Duration::ZERO, Duration::MAX);
    let longest = Duration::from_micros(1 << 53);
    for jobs in [0, 2, 3, u32::MAX] {
        for per in [least, Duration::from_nanos(1_001), LONG, longest, most] {
            keys.delete_all();
            keys.set_clock();
            let clock = ManualStoreClock::new(&ManualClock::new());
            let sim = SimStore::new(clock.clone());
            let rate = Limit::rate_of_kind("mail", jobs, per);
            for store in [&keys.store as &dyn Store, &sim] {
                store.limit("queue", &rate, true).unwrap();
                assert_eq!(store.limits("queue").unwrap(), std::slice::from_ref(&rate));
                store.enqueue("queue", &[MAIL; 8]).unwrap();
            }
            for _ in 0..4 {
                let [ours, twin] = [claimed(&keys.store, 2), claimed(&sim, 2)];
                assert_eq!(ours.len(), twin.len(), "{rate:?}");
                keys.advance(LONG / 2);
                clock.advance(LONG / 2);
            }
        }
    }
}

#[test]
fn a_kind_longer_than_any_job_may_have_is_rejected() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let kind = "k".repeat(KEY_LIMIT);
    set(&keys.store, &Limit::per_kind(&kind, 1));
    assert_eq!(keys.store.limits("queue").unwrap().len(), 1);
    let longer = Limit::per_kind(kind + "k", 1);
    let error = keys.store.limit("queue", &longer, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

/// Neither of the calls moves an unlimited number of jobs.
#[test]
fn jobs_that_a_removed_limit_has_parked_are_called_by_it_and_the_next_claims() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let first = one_of(&keys, 1 + PARK_LIMIT + 10);
    let limit = Limit::per_kind("mail", 1);
    store.limit("queue", &limit, false).unwrap();
    assert_eq!(store.limits("queue").unwrap(), []);
    assert_eq!(store.stats("queue").unwrap().due, PARK_LIMIT);
    // Set and removed again in between, it counts the held job.
    set(store, &limit);
    assert!(claimed(store, 1).is_empty());
    store.limit("queue", &limit, false).unwrap();
    let mut done = 0;
    while let Some(lease) = claimed(store, 1).pop() {
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
        done += 1;
        if done == 3 {
            assert_eq!(store.stats("queue").unwrap().due, PARK_LIMIT + 7);
            break;
        }
    }
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    for name in ["limit", "place"] {
        assert!(
            !keys.run::<bool>(cmd("EXISTS").arg(part(&keys, name))),
            "{name}"
        );
    }
}

/// Without the limits, parked jobs wait until the limit is set again, as processes do when they start.
#[test]
fn jobs_that_were_parked_when_a_key_was_lost_can_be_brought_back() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    for lost in ["limit", "place"] {
        let first = one_of(&keys, 2);
        keys.run::<()>(cmd("UNLINK").arg(part(&keys, lost)));
        assert!(claimed(store, 1).is_empty(), "{lost}");
        set(store, &Limit::per_kind("mail", 1));
        if lost == "place" {
            let second = first.id.as_u64() + 1;
            let second = JobId::from_u64(second).into();
            let moved = store.reset("queue", second, When::NOW).unwrap();
            assert_eq!(moved, Reset::Moved);
        } else {
            assert!(claimed(store, 1).is_empty(), "the first one counts");
        }
        assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
        let second = claimed(store, 1).remove(0);
        assert_eq!(settle(store, &second, Act::Ack), Verdict::Done, "{lost}");
    }
}

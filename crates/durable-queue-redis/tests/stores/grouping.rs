//! Groups: names and times at their extremes, former rules, and partly deleted keys.

use std::collections::BTreeSet;
use std::time::Duration;

use ::redis::cmd;
use durable_queue::store::{Act, Claim, KindRoom, Lease, PARK_LIMIT, Verdict};
use durable_queue::{JobId, Limit, NewJob, Reset, Store, StoreTime, When};
use durable_queue_testing::conformance::Fixture as _;

use super::Keys;
use crate::alike::{JOB, claim_of, claimed, settle};

const fn of_group(group: &str) -> NewJob<'_> {
    NewJob {
        group: Some(group),
        ..JOB
    }
}

const A: NewJob<'_> = of_group("a");

fn set(store: &impl Store, limit: &Limit) {
    store.limit("queue", limit, true).unwrap();
}

fn pushed(store: &impl Store, jobs: &[NewJob<'_>]) -> Vec<JobId> {
    let puts = store.enqueue("queue", jobs).unwrap();
    puts.iter().map(|put| put.id()).collect()
}

fn ids(leases: &[Lease]) -> Vec<JobId> {
    leases.iter().map(|lease| lease.id).collect()
}

fn part(keys: &Keys, name: &str) -> String {
    keys.key(&format!("{{queue}}:{name}"))
}

fn text(id: JobId) -> String {
    format!("{:016}", id.as_u64())
}

fn entries(keys: &Keys) -> Vec<Vec<u8>> {
    keys.run(cmd("ZRANGE").arg(part(keys, "group")).arg(0).arg(-1))
}

/// With ordered groups: the first of these jobs is held, and the others wait.
fn one_of(keys: &Keys, jobs: &[NewJob<'_>]) -> (Lease, Vec<JobId>) {
    let store = &keys.store;
    set(store, &Limit::ordered());
    let mut all = pushed(store, jobs);
    let lease = claimed(store, 1).remove(0);
    assert_eq!(lease.id, all.remove(0));
    while store.stats("queue").unwrap().due > 0 {
        assert!(claimed(store, 1).is_empty());
    }
    (lease, all)
}

/// Each group has one job that runs, and one that waits.
#[test]
fn a_group_is_distinct_from_all_others_whatever_its_name() {
    const NAMES: [&str; 14] = [
        "",
        "a",
        "as",
        "aw",
        "a0",
        "a1",
        "ab",
        "~",
        "~~",
        "!",
        "f",
        "\0",
        "\u{10FFFF}",
        "0000000001a",
    ];
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    for rule in [Limit::ordered(), Limit::per_group(1)] {
        set(store, &rule);
        let [first, second] = [0; 2].map(|_| pushed(store, &NAMES.map(of_group)));
        let leases = claimed(store, 99);
        assert_eq!(ids(&leases), first);
        for (lease, next) in leases.iter().zip(&second) {
            assert_eq!(settle(store, lease, Act::Ack), Verdict::Done);
            let next_lease = claimed(store, 99).remove(0);
            assert_eq!(next_lease.id, *next);
            settle(store, &next_lease, Act::Ack);
        }
    }
    assert!(entries(&keys).is_empty());
    set(store, &Limit::fair());
    let all = pushed(
        store,
        &[NAMES, NAMES]
            .concat()
            .into_iter()
            .map(of_group)
            .collect::<Vec<_>>(),
    );
    let mut leases = ids(&claimed(store, 99));
    leases.sort_unstable();
    assert_eq!(leases, all);
}

/// The order of texts is that of times.
#[test]
fn jobs_of_a_group_are_called_by_time_in_the_whole_range() {
    const LAST: i64 = (1 << 53) - 1;
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let times = [9, 1, 0, -1, -9, 1 - LAST, -LAST, i64::MIN];
    let job = |time: i64| NewJob {
        when: When::At(StoreTime::from_micros(time)),
        ..A
    };
    let jobs: Vec<_> = times.into_iter().map(job).collect();
    let (first, mut others) = {
        set(store, &Limit::ordered());
        let held = pushed(store, &[A]);
        let first = claimed(store, 1).remove(0);
        assert_eq!(first.id, held[0]);
        (first, pushed(store, &jobs))
    };
    assert!(claimed(store, 1).is_empty());
    others.reverse();
    let mut lease = first;
    for next in others {
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
        lease = claimed(store, 1).remove(0);
        assert_eq!(lease.id, next);
    }
}

/// A claim says that there are more. Afterwards claims run no command because of groups: see `counting`.
#[test]
fn claims_free_the_jobs_that_a_removed_rule_has_stopped() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let (first, others) = one_of(&keys, &vec![A; 2 * PARK_LIMIT as usize + 3]);
    store.limit("queue", &Limit::ordered(), false).unwrap();
    // It takes none of them.
    let kinds = [KindRoom {
        kind: "other",
        room: 1,
    }];
    let claim = Claim {
        kinds: Some(&kinds),
        ..claim_of(1)
    };
    let firsts: Vec<bool> = (0..4)
        .map(|_| {
            let turn = store.turn("queue", &[], Some(claim)).unwrap();
            turn.claimed.unwrap().first <= turn.now
        })
        .collect();
    assert_eq!(firsts, [true, true, false, false]);
    let leases = claimed(store, 2 * PARK_LIMIT + 9);
    assert_eq!(ids(&leases), others);
    assert!(entries(&keys).is_empty());
    let rule: String = keys.run(cmd("HGET").arg(part(&keys, "state")).arg("groups"));
    assert_eq!(rule, format!("{:016}", 2));
    // They count when a rule is set again.
    set(store, &Limit::ordered());
    pushed(store, &[A]);
    assert!(claimed(store, 1).is_empty());
    for lease in leases.iter().chain([&first]) {
        assert_eq!(settle(store, lease, Act::Ack), Verdict::Done);
    }
    assert_eq!(claimed(store, 1).len(), 1);
}

/// The claim that finds a full group notices.
#[test]
fn a_seat_of_a_job_that_was_deleted_is_given_to_another() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let (first, others) = one_of(&keys, &[A; 2]);
    let id = text(first.id);
    keys.run::<()>(cmd("ZREM").arg(part(&keys, "lease")).arg(&id));
    for name in ["job", "payload", "extra"] {
        keys.run::<()>(cmd("HDEL").arg(part(&keys, name)).arg(&id));
    }
    assert!(claimed(store, 1).is_empty());
    let next = pushed(store, &[A]);
    let lease = claimed(store, 1).remove(0);
    assert_eq!(lease.id, next[0]);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    let lease = claimed(store, 1).remove(0);
    assert_eq!(lease.id, others[0]);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    assert!(entries(&keys).is_empty());
}

/// Its next one is called by the claim that has found it.
#[test]
fn a_job_without_its_payload_leaves_its_seat() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let (first, others) = one_of(&keys, &[A; 3]);
    let payload = part(&keys, "payload");
    keys.run::<()>(cmd("HDEL").arg(payload).arg(text(others[0])));
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    let turn = store.turn("queue", &[], Some(claim_of(1))).unwrap();
    let answer = turn.claimed.unwrap();
    assert!(answer.leases.is_empty() && answer.first <= turn.now);
    assert_eq!(ids(&claimed(store, 1)), others[1..]);
    assert_eq!(store.dead("queue", None, 9).unwrap().len(), 1);
}

/// Jobs that wait can be reset. The records tell the groups of those that have seats.
#[test]
fn jobs_that_were_stopped_when_a_key_was_lost_can_be_brought_back() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    for lost in ["group", "extra"] {
        let (first, others) = one_of(&keys, &[A; 2]);
        keys.run::<()>(cmd("UNLINK").arg(part(&keys, lost)));
        if lost == "group" {
            assert!(claimed(store, 1).is_empty());
            let moved = store.reset("queue", others[0].into(), When::NOW).unwrap();
            assert_eq!(moved, Reset::Moved);
        } else {
            pushed(store, &[of_group("another")]);
            assert_eq!(claimed(store, 9).len(), 1);
        }
        assert_eq!(settle(store, &first, Act::Ack), Verdict::Done, "{lost}");
        let second = claimed(store, 1).remove(0);
        assert_eq!(second.id, others[0], "{lost}");
        assert_eq!(settle(store, &second, Act::Ack), Verdict::Done);
        let rest: BTreeSet<_> = entries(&keys).into_iter().collect();
        keys.delete_all();
        keys.set_clock();
        assert_eq!(rest.len(), usize::from(lost == "extra"), "{lost}");
    }
}

/// Entries of jobs that are gone or have changed are removed by the claim that finds them.
#[test]
fn entries_of_fresh_jobs_that_contradict_other_keys_are_not_seated() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    for rule in [Limit::ordered(), Limit::fair()] {
        let all = pushed(store, &[A; 5]);
        set(store, &rule);
        let [gone, broken, moved, ..] = all[..] else {
            panic!("five jobs")
        };
        let due = part(&keys, "due");
        keys.run::<()>(cmd("ZREM").arg(&due).arg(text(gone)));
        let record = part(&keys, "job");
        keys.run::<()>(cmd("HSET").arg(record).arg(text(broken)).arg(b"\xc1"));
        let later = 8_000_000_000_000_000_u64;
        keys.run::<()>(cmd("ZADD").arg(&due).arg(later).arg(text(moved)));
        keys.advance(Duration::from_secs(1));
        assert!(claimed(store, 1).is_empty(), "it buries a broken job");
        let leases = claimed(store, 1);
        assert_eq!(ids(&leases), all[3..4], "{rule:?}");
        assert_eq!(settle(store, &leases[0], Act::Ack), Verdict::Done);
        assert_eq!(ids(&claimed(store, 1)), all[4..], "{rule:?}");
        assert_eq!(store.dead("queue", None, 9).unwrap().len(), 1);
        keys.delete_all();
        keys.set_clock();
    }
}

//! Partly deleted or unreadable keys: remaining jobs continue, and lost ones are reported.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Duration;

use ::redis::cmd;
use durable_queue::store::{Act, DeadJob, Verdict};
use durable_queue::{Cancelled, DurableQueue, JobId, NewJob, Put, Store};
use durable_queue_redis::RedisStore;
use durable_queue_testing::conformance::Fixture as _;

use super::Keys;
use crate::alike::{JOB, claim_of, claimed, count};

/// All keys of a queue.
pub(super) const PARTS: [&str; 10] = [
    "due", "lease", "urgent", "job", "payload", "pending", "running", "dead", "letter", "state",
];
const KEYED: NewJob<'_> = NewJob {
    key: Some(b"key"),
    ..JOB
};
const URGENT: NewJob<'_> = NewJob {
    urgent: true,
    ..JOB
};

fn part(keys: &Keys, name: &str) -> String {
    keys.key(&format!("{{queue}}:{name}"))
}

/// Takes and acknowledges all due jobs, and returns their ids.
fn worked_off(store: &RedisStore) -> Vec<JobId> {
    let mut done = Vec::new();
    while store.stats("queue").unwrap().due > 0 {
        let leases = claimed(store, 2);
        let acks: Vec<_> = leases.iter().map(|it| it.settle(Act::Ack)).collect();
        let turn = store.turn("queue", &acks, None).unwrap();
        assert!(turn.verdicts.iter().all(|it| *it == Verdict::Done));
        done.extend(leases.iter().map(|lease| lease.id));
    }
    done
}

fn ids(dead: &[DeadJob]) -> Vec<JobId> {
    dead.iter().map(|dead| dead.id).collect()
}

#[test]
fn after_the_loss_of_a_key_the_queue_continues_and_lost_jobs_are_dead_letters() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    for gone in PARTS {
        keys.delete_all();
        keys.set_clock();
        // A buried job, one that waits for a retry, and two held ones, one of them with a key.
        store.enqueue("queue", &[JOB, JOB, KEYED, URGENT]).unwrap();
        let leases = claimed(store, 4);
        let acts = [Act::bury("no"), Act::retry(durable_queue::When::NOW)];
        let acts: Vec<_> = leases
            .iter()
            .zip(acts)
            .map(|(it, act)| it.settle(act))
            .collect();
        store.turn("queue", &acts, None).unwrap();
        // And further jobs.
        let puts = store.enqueue("queue", &[JOB, KEYED, URGENT, JOB]).unwrap();
        let old: BTreeSet<JobId> = puts
            .iter()
            .map(|put| put.id())
            .chain(leases.iter().map(|it| it.id))
            .collect();
        assert_eq!((old.len(), count(store)), (8, 7), "{gone}");

        keys.run::<()>(cmd("UNLINK").arg(part(&keys, gone)));
        let puts = store.enqueue("queue", &[JOB, KEYED, URGENT]).unwrap();
        let new: BTreeSet<JobId> = puts
            .iter()
            .filter(|put| matches!(put, Put::New(_)))
            .map(|put| put.id())
            .collect();
        assert!(new.is_disjoint(&old), "{gone}: {puts:?}");
        store.list("queue", None, 100).unwrap();
        keys.advance(Duration::from_secs(4_000)); // The leases have expired.
        let there: u32 = store.stats("queue").unwrap().due;
        let done = worked_off(store);
        let distinct: BTreeSet<JobId> = done.iter().copied().collect();
        assert_eq!((distinct.len(), count(store)), (done.len(), 0), "{gone}");
        assert!(distinct.is_superset(&new), "{gone}: {done:?}");
        let dead = store.dead("queue", None, 100).unwrap();
        let lost = dead
            .iter()
            .filter(|it| it.error.contains("is gone"))
            .count();
        // The payload of the existing letter is missed only when the letter is redriven.
        let missed = if gone == "letter" { lost - 1 } else { lost };
        assert_eq!(missed + done.len(), there as usize, "{gone}");
        assert_eq!(missed, if gone == "payload" { 7 } else { 0 }, "{gone}");

        store.redrive("queue", &ids(&dead)).unwrap();
        worked_off(store);
        let dead = store.dead("queue", None, 100).unwrap();
        assert_eq!(store.delete_dead("queue", &ids(&dead)).unwrap(), dead.len());
        assert!(store.dead("queue", None, 100).unwrap().is_empty(), "{gone}");
    }
}

#[test]
fn a_remaining_dead_letter_keeps_its_id_when_the_state_is_lost() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let letter = store.enqueue("queue", &[JOB]).unwrap()[0].id();
    let lease = claimed(store, 1).remove(0);
    let bury = lease.settle(Act::bury("no"));
    store.turn("queue", &[bury], None).unwrap();
    keys.run::<()>(cmd("UNLINK").arg(part(&keys, "state")));
    assert_ne!(store.enqueue("queue", &[JOB]).unwrap()[0].id(), letter);
}

#[test]
fn jobs_without_payloads_are_not_returned_to_their_holder_and_can_be_cancelled() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let puts = store.enqueue("queue", &[JOB, JOB]).unwrap();
    let claim = claim_of(1);
    store.turn("queue", &[], Some(claim)).unwrap();
    keys.run::<()>(cmd("UNLINK").arg(part(&keys, "payload")));
    let held = store.held_by("queue", claim.token, claim.lease).unwrap();
    assert!(held.is_empty());
    let gone = Cancelled::Gone {
        payload: Vec::new(),
        attempts: 0,
    };
    assert_eq!(store.cancel("queue", puts[1].id().into()).unwrap(), gone);
    assert_eq!(count(store), 1);
}

/// Without its record, a job is not urgent.
#[test]
fn entries_of_urgent_jobs_that_are_gone_or_not_urgent_are_not_claimed() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let puts = store.enqueue("queue", &[JOB, URGENT, URGENT]).unwrap();
    let [moved, gone] = [1, 2].map(|index| format!("{:016}", puts[index].id().as_u64()));
    for id in [&moved, &gone] {
        keys.run::<()>(cmd("HDEL").arg(part(&keys, "job")).arg(id));
    }
    let due = part(&keys, "due");
    keys.run::<()>(cmd("ZREM").arg(&due).arg(&gone));
    keys.run::<()>(cmd("HDEL").arg(part(&keys, "payload")).arg(&gone));
    let later = 8_000_000_000_000_000_u64;
    keys.run::<()>(cmd("ZADD").arg(&due).arg(later).arg(&moved));

    let leases = claimed(store, 9);
    assert_eq!((leases.len(), leases[0].id), (1, puts[0].id()));
    let urgent = part(&keys, "urgent");
    assert!(!keys.run::<bool>(cmd("EXISTS").arg(urgent)));
    assert_eq!(count(store), 2);
}

#[test]
fn the_mark_of_a_job_whose_extras_were_lost_is_removed_after_its_end() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let id = store.enqueue("queue", &[JOB]).unwrap()[0].id();
    let lease = claimed(store, 1).remove(0);
    assert_eq!(store.cancel("queue", id.into()).unwrap(), Cancelled::Taken);
    keys.run::<()>(cmd("UNLINK").arg(part(&keys, "extra")));
    assert_eq!(store.cancel_requests("queue").unwrap().len(), 1);
    let ack = lease.settle(Act::Ack);
    store.turn("queue", &[ack], None).unwrap();
    assert!(store.cancel_requests("queue").unwrap().is_empty());
    assert!(!keys.run::<bool>(cmd("EXISTS").arg(part(&keys, "marked"))));
}

/// Invalid records, and records of other types.
const UNREADABLE: [&[u8]; 4] = [b"", b"\xc1hunter2", b"hunter2", b"\x93\x01\x02\x03"];

#[test]
fn jobs_with_invalid_records_are_buried_and_others_continue() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    for record in UNREADABLE {
        keys.delete_all();
        keys.set_clock();
        let puts = store.enqueue("queue", &[KEYED, URGENT, JOB]).unwrap();
        for put in &puts[..2] {
            let id = format!("{:016}", put.id().as_u64());
            keys.run::<()>(cmd("HSET").arg(part(&keys, "job")).arg(id).arg(record));
        }
        // Its key is unknown.
        let again = store.enqueue("queue", &[KEYED]).unwrap();
        assert!(matches!(again[..], [Put::New(_)]), "{again:?}");
        assert_eq!(store.list("queue", None, 10).unwrap().len(), 4);
        assert_eq!(worked_off(store), [puts[2].id(), again[0].id()]);
        let dead = store.dead("queue", None, 10).unwrap();
        assert_eq!(ids(&dead), [puts[0].id(), puts[1].id()]);
        assert!(
            dead.iter()
                .all(|dead| dead.error.contains("cannot be read"))
        );
        assert!(dead.iter().all(|dead| dead.payload == JOB.payload));
        // The same for dead letters.
        let id = format!("{:016}", dead[1].id.as_u64());
        keys.run::<()>(cmd("HSET").arg(part(&keys, "letter")).arg(id).arg(record));
        let letter = &store.dead("queue", None, 10).unwrap()[1];
        assert!(letter.id == dead[1].id && letter.error.contains("cannot be read"));
        assert_eq!(store.redrive("queue", &ids(&dead)).unwrap(), 1);
        assert_eq!(worked_off(store), [dead[0].id]);
        assert_eq!(store.delete_dead("queue", &ids(&dead)).unwrap(), 1);
    }
}

#[test]
fn an_invalid_record_does_not_block_settles_of_others() {
    let Some(keys) = Keys::new() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        let queue: DurableQueue<String, _> = DurableQueue::new("queue", keys.another_store());
        let now = durable_queue::When::NOW;
        let push = |text: &str| (text.to_owned(), now);
        queue
            .push_batch(vec![push("1"), push("2"), push("3")])
            .unwrap();
        let three = NonZeroUsize::new(3).unwrap();
        let taken = queue.take_many(three).unwrap();
        assert_eq!(taken.len(), 3);
        let id = format!("{:016}", taken[1].id().as_u64());
        keys.run::<()>(cmd("HSET").arg(part(&keys, "job")).arg(id).arg(b"\xc1"));
        let acks: Vec<_> = taken
            .into_iter()
            .map(durable_queue::Claimed::ack_async)
            .collect();
        let acks: Vec<_> = acks.into_iter().map(|ack| ack.wait().is_ok()).collect();
        assert_eq!(acks, [true, false, true]);
        queue.push("4".to_owned(), now).unwrap();
        queue.take().unwrap().ack().unwrap();
    });
}

//! Permanent rejections: the party that requested the change gets an error, and all others continue.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use durable_queue::internals::FIRST_PAUSE;
use durable_queue::store::{Act, Claim, Settle};
use durable_queue::{
    Claimed, DurableQueue, ErrorKind, HORIZON, JobId, LEASE, Retried, SettleError, When,
};
use durable_queue_testing::{Call, Fault, SimStore};

use crate::support::{SECOND, Time, job, on_thread};

type Queue = DurableQueue<String, SimStore>;

const REFUSED: Fault = Fault::Refused(ErrorKind::Corrupt);

/// Returns a queue whose turns are rejected if `is_refused` says so, and a counter of turns.
fn queue(
    time: &Time,
    is_refused: impl Fn(&[Settle<'_>], Option<&Claim>) -> bool + Send + Sync + 'static,
) -> (Queue, Arc<AtomicU32>) {
    let turns = Arc::new(AtomicU32::new(0));
    let asked = Arc::clone(&turns);
    let store = SimStore::with_turn_faults(time.store.clone(), move |settles, claim| {
        asked.fetch_add(1, SeqCst);
        if is_refused(settles, claim) {
            REFUSED
        } else {
            Fault::None
        }
    });
    (time.queue(store), turns)
}

fn taken(queue: &Queue, jobs: u32) -> Vec<Claimed<String>> {
    let push = |number: u32| (number.to_string(), When::NOW);
    queue.push_batch((0..jobs).map(push).collect()).unwrap();
    take_many(queue, jobs)
}

fn take_many(queue: &Queue, most: u32) -> Vec<Claimed<String>> {
    queue
        .take_many(NonZeroUsize::new(most as usize).unwrap())
        .unwrap()
}

/// The id of the n-th job of the simulated store.
fn id(number: u64) -> JobId {
    JobId::from_u64(number)
}

fn is_refused(settled: &Result<(), SettleError>) -> bool {
    match settled {
        Err(SettleError::Refused(error)) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            true
        }
        Err(other) => panic!("{other}"),
        Ok(()) => false,
    }
}

#[testkit::test]
fn permanently_rejected_settles_get_an_error_and_others_are_carried_out() {
    const JOBS: u32 = 64;
    for guilty in [&[1][..], &[64], &[7, 8], &[1, 30, 64]] {
        let time = Time::new();
        let bad: Vec<JobId> = guilty.iter().copied().map(id).collect();
        let gate = Arc::new(Mutex::new(()));
        let (queue, turns) = queue(&time, {
            let (bad, gate) = (bad.clone(), Arc::clone(&gate));
            move |settles, _| {
                drop(gate.lock().unwrap());
                let is_bad = |it: &Settle<'_>| bad.contains(&it.id);
                settles
                    .iter()
                    .any(|it| is_bad(it) && matches!(it.act, Act::Ack))
            }
        });
        let all = taken(&queue, JOBS);
        // The pump is blocked in a turn until all settles are submitted, so the next turn has all of them.
        let closed = gate.lock().unwrap();
        let before = turns.load(SeqCst);
        let extended = all[0].extend_async(LEASE);
        while turns.load(SeqCst) == before {
            thread::yield_now();
        }
        let acks: Vec<_> = all
            .into_iter()
            .map(|it| (it.id(), it.ack_async()))
            .collect();
        drop(closed);
        extended.wait().unwrap();
        for (id, ack) in acks {
            assert_eq!(is_refused(&ack.wait()), bad.contains(&id), "{id:?}");
        }
        let stats = queue.stats();
        assert_eq!(stats.refused, bad.len() as u64);
        assert_eq!(stats.stale, 0);
        // Found by bisection: two turns for each of six levels, the two before that, and one that checks
        // whether the store answers at all.
        let turns = turns.load(SeqCst) - before;
        assert!(turns as usize <= 3 + 12 * bad.len(), "{turns}");
        // Each is handed out again when its lease has expired.
        assert_eq!(queue.store_stats().unwrap().jobs as usize, bad.len());
        time.clock.advance(LEASE);
        let again = take_many(&queue, JOBS);
        for job in &again {
            assert!(bad.contains(&job.id()) && job.attempt() == 2);
        }
        for job in again {
            assert!(matches!(job.retry("no").unwrap(), Retried::Again(_)));
        }
    }
}

#[testkit::test]
fn a_rejected_claim_does_not_delay_settles_and_is_retried_after_pauses() {
    let time = Time::new();
    let is_bad = Arc::new(AtomicBool::new(false));
    let (queue, turns) = queue(&time, {
        let is_bad = Arc::clone(&is_bad);
        move |_, claim| is_bad.load(SeqCst) && claim.is_some()
    });
    let mut held = taken(&queue, 2);
    queue.push(job("next"), When::NOW).unwrap();
    is_bad.store(true, SeqCst);
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    // The claim was rejected. Before that, the pump sleeps as well.
    while queue.last_error().is_none() {
        thread::yield_now();
    }
    // Answered without any time passing.
    held.pop().unwrap().ack().unwrap();
    time.clock.wait_for_sleepers(1);
    assert_eq!(queue.last_error().unwrap().kind(), ErrorKind::Corrupt);
    let before = turns.load(SeqCst);
    held.pop().unwrap().ack().unwrap();
    // The turn has ended; the claim waits for the end of its pause.
    time.clock.wait_for_sleepers(1);
    assert_eq!(turns.load(SeqCst), before + 1);
    is_bad.store(false, SeqCst);
    time.clock.advance(SECOND);
    let taken = taker.join().unwrap();
    assert_eq!((&**taken, queue.stats().refused), ("next", 0));
    assert!(queue.last_error().is_none());
    taken.ack().unwrap();
}

/// The store is the cause, not the settles.
#[testkit::test]
fn a_store_that_rejects_everything_gets_all_settles_when_it_recovers() {
    let time = Time::new();
    let is_bad = Arc::new(AtomicBool::new(false));
    let (queue, _) = queue(&time, {
        let is_bad = Arc::clone(&is_bad);
        move |_, _| is_bad.load(SeqCst)
    });
    let held = taken(&queue, 8);
    time.clock.wait_for_sleepers(1);
    is_bad.store(true, SeqCst);
    let acks: Vec<_> = held.into_iter().map(Claimed::ack_async).collect();
    for _ in 0..5 {
        time.clock.wait_for_sleepers(1);
        time.clock.advance(FIRST_PAUSE);
    }
    assert_eq!(queue.store_stats().unwrap().jobs, 8);
    is_bad.store(false, SeqCst);
    time.clock.advance(SECOND);
    for ack in acks {
        ack.wait().unwrap();
    }
    assert_eq!(queue.stats().refused, 0);
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn a_rejected_renewal_is_reported_to_the_handler_and_others_are_carried_out() {
    let time = Time::new();
    let (queue, _) = queue(&time, |settles, _| {
        settles
            .iter()
            .any(|it| it.id == id(2) && matches!(it.act, Act::Extend { .. }))
    });
    let held = taken(&queue, 3);
    for _ in 0..6 {
        time.advance(LEASE / 3);
    }
    time.clock.wait_for_sleepers(1);
    for job in held {
        assert_eq!(job.is_lost(), job.id() == id(2));
        // No other process has taken it.
        job.ack().unwrap();
    }
    assert_eq!(queue.stats().refused, 1);
}

#[testkit::test]
fn after_a_rejected_extension_the_holder_still_has_the_job() {
    let time = Time::new();
    let (queue, _) = queue(&time, |settles, _| {
        let is_long = |act: &Act<'_>| matches!(act, Act::Extend { lease } if *lease == LEASE * 2);
        settles.iter().any(|it| is_long(&it.act))
    });
    let job = taken(&queue, 1).pop().unwrap();
    assert!(is_refused(&job.extend(LEASE * 2)));
    for _ in 0..6 {
        time.advance(LEASE / 3);
    }
    time.clock.wait_for_sleepers(1);
    assert!(!job.is_lost());
    job.ack().unwrap();
}

/// As with a custom store that fails on one of the jobs.
#[testkit::test]
fn a_store_that_panics_at_one_settle_carries_out_the_others() {
    let time = Time::new();
    let store = SimStore::with_turn_faults(time.store.clone(), |settles, _| {
        let is_bad = |it: &Settle<'_>| it.id == id(2) && matches!(it.act, Act::Ack);
        if settles.iter().any(is_bad) {
            std::panic::resume_unwind(Box::new("a store that panics"));
        }
        Fault::None
    });
    let queue = time.queue(store);
    let acks: Vec<_> = taken(&queue, 3)
        .into_iter()
        .map(Claimed::ack_async)
        .collect();
    let refused = acks.into_iter().map(|ack| ack.wait().is_err());
    assert_eq!(refused.collect::<Vec<_>>(), [false, true, false]);
}

/// With any error kind, the store is the cause, not the settles.
#[testkit::test]
fn a_store_that_carries_out_nothing_is_retried_and_no_settle_is_rejected() {
    let time = Time::new();
    let fails = Arc::new(AtomicBool::new(false));
    let plan = {
        let fails = Arc::clone(&fails);
        move |call| {
            if call == Call::Turn && fails.load(SeqCst) {
                REFUSED
            } else {
                Fault::None
            }
        }
    };
    let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    fails.store(true, SeqCst);
    let settled = on_thread(&queue, move |_| taken.ack());
    while !settled.is_finished() {
        if queue.stats().errors > 0 && time.clock.sleepers() > 0 {
            fails.store(false, SeqCst);
            time.clock.advance(FIRST_PAUSE);
        }
        thread::yield_now();
    }
    settled.join().unwrap().unwrap();
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

/// The claim's jobs are handed out again when its leases have expired.
#[testkit::test]
fn a_lost_claim_that_cannot_be_recovered_delays_nothing() {
    let time = Time::new();
    let is_lost = AtomicBool::new(true);
    let store = SimStore::with_faults(time.store.clone(), move |call| match call {
        Call::Turn if is_lost.swap(false, SeqCst) => Fault::After,
        Call::HeldBy => REFUSED,
        _ => Fault::None,
    });
    let queue = time.queue(store);
    queue.push(job("held"), When::NOW).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    time.advance(FIRST_PAUSE);
    time.clock.wait_for_sleepers(1);
    queue.push(job("other"), When::NOW).unwrap();
    let other = taker.join().unwrap();
    assert_eq!(&**other, "other");
    other.ack().unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    time.advance(LEASE);
    let held = taker.join().unwrap();
    assert_eq!((&**held, held.attempt()), ("held", 2));
    held.ack().unwrap();
}

#[testkit::test]
fn a_rejected_start_delays_no_other_and_its_job_is_handed_out_again() {
    let time = Time::new();
    let count = Arc::new(AtomicU32::new(0));
    let (queue, _) = queue(&time, {
        let count = Arc::clone(&count);
        move |settles, _| {
            let is_bad = |it: &Settle<'_>| it.id == id(1) && matches!(it.act, Act::Start { .. });
            settles.iter().any(is_bad) && count.fetch_add(1, SeqCst) < 2
        }
    });
    let soon = When::After(HORIZON / 2);
    queue
        .push_batch(vec![(job("1"), soon), (job("2"), soon)])
        .unwrap();
    let taker = on_thread(&queue, |queue| take_many(queue, 2).pop().unwrap());
    time.advance(HORIZON / 2);
    let second = taker.join().unwrap();
    assert_eq!(second.id(), id(2));
    second.ack().unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    for _ in 0..20 {
        if taker.is_finished() {
            break;
        }
        time.clock.advance(SECOND);
        thread::yield_now();
    }
    taker.join().unwrap().ack().unwrap();
    assert_eq!(queue.stats().refused, 1);
}

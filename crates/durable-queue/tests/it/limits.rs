//! Limits of the store, as the waiting calls of processes see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use durable_queue::{DurableQueue, LEASE, Limit, Merge, NewJob, Store, When};
use durable_queue_testing::{Call, Fault, SimStore};

use sync_shim::Clock as _;

use crate::support::{SECOND, Time, on_thread};

const MAIL: NewJob<'_> = NewJob {
    payload: b"mail",
    when: When::NOW,
    key: None,
    group: None,
    merge: Merge::Keep,
    schedule: None,
    urgent: false,
    kind: Some("mail"),
    options: None,
};

/// Two processes. One mail may run.
fn two_processes(time: &Time) -> [DurableQueue<String, SimStore>; 2] {
    let ours = time.queue(time.sim());
    ours.limit(&Limit::per_kind("mail", 1)).unwrap();
    ours.store().enqueue("queue", &[MAIL; 2]).unwrap();
    let theirs = time.queue(ours.store().clone());
    [ours, theirs]
}

#[testkit::test]
fn a_waiting_take_gets_the_place_that_another_process_frees() {
    let time = Time::new();
    let [ours, theirs] = two_processes(&time);
    let first = theirs.take().unwrap();
    let taker = on_thread(&ours, |queue| queue.take().unwrap().id());
    time.clock.wait_for_sleepers(2);
    assert!(!taker.is_finished());
    let id = first.id();
    first.ack().unwrap();
    assert_ne!(taker.join().unwrap(), id);
}

/// Its lease ends: nobody renews it.
#[testkit::test]
fn a_waiting_take_gets_the_place_of_a_dead_process() {
    let time = Time::new();
    let ours = time.queue(time.sim());
    ours.limit(&Limit::per_kind("mail", 1)).unwrap();
    ours.store().enqueue("queue", &[MAIL; 2]).unwrap();
    let dead = time.builder(ours.store().clone()).heartbeat(false);
    let first = dead.build().unwrap().take().unwrap();
    let taker = on_thread(&ours, |queue| queue.take().unwrap().id());
    while !taker.is_finished() {
        time.clock.advance(LEASE / 10);
        std::thread::yield_now();
    }
    assert_ne!(taker.join().unwrap(), first.id());
    assert!(first.ack().is_err(), "the holder is fenced off");
}

/// The pump makes no turns in vain.
#[testkit::test]
fn a_waiting_take_sleeps_until_the_next_token_of_a_rate() {
    let time = Time::new();
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = turns.clone();
    let store = SimStore::with_faults(time.store.clone(), move |call| {
        counted.fetch_add(usize::from(call == Call::Turn), SeqCst);
        Fault::None
    });
    let queue = time.queue(store);
    queue
        .limit(&Limit::rate_of_kind("mail", 1, SECOND))
        .unwrap();
    queue.store().enqueue("queue", &[MAIL; 3]).unwrap();
    queue.take().unwrap().ack().unwrap();
    for _ in 0..2 {
        let before = turns.load(SeqCst);
        let taker = on_thread(&queue, |queue| queue.take().unwrap().ack().unwrap());
        let until = time.clock.now() + SECOND;
        while time.clock.next_due() != Some(until) {
            std::thread::yield_now();
        }
        let asleep = turns.load(SeqCst);
        assert!(asleep - before <= 2, "{} turns", asleep - before);
        assert!(!taker.is_finished());
        time.clock.advance(SECOND);
        taker.join().unwrap();
        assert!(turns.load(SeqCst) - asleep <= 2, "a claim and a settle");
    }
}

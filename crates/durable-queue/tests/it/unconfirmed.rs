//! Without confirmation: jobs are handed out at their due times, and the store learns about it later.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use durable_queue::store::JobState;
use durable_queue::{Cancelled, Claimed, DurableQueue, HORIZON, LEASE, Merge, Put, Reset, When};
use durable_queue_testing::{Call, Fault, SimStore};
use sync_shim::Clock as _;
use testkit::Gate;

use crate::support::{Time, job, on_thread};

type Queue = DurableQueue<String, SimStore>;

/// A queue whose store can be made not to answer turns.
struct World {
    time: Time,
    queue: Queue,
    slow: Arc<AtomicBool>,
    gate: Gate,
}

impl World {
    fn new() -> Self {
        let time = Time::new();
        let (slow, gate) = (Arc::new(AtomicBool::new(false)), Gate::new());
        let store = {
            let (slow, gate) = (Arc::clone(&slow), gate.clone());
            SimStore::with_faults(time.store.clone(), move |call| {
                // Relaxed: the pump was woken after it was set.
                if call == Call::Turn && slow.load(Relaxed) {
                    gate.wait();
                }
                Fault::None
            })
        };
        let queue = time.builder(store).confirm(false).build().unwrap();
        Self {
            time,
            queue,
            slow,
            gate,
        }
    }

    /// Waits until the pump holds the job and sleeps until its due time, which is the horizon away.
    fn wait_for_claim(&self) {
        let due = self.time.clock.now() + HORIZON;
        while self.time.clock.next_due() != Some(due) {
            std::thread::yield_now();
        }
        let listed = self.queue.list(None, 1).unwrap();
        assert_eq!(listed[0].state, JobState::Claimed);
    }

    /// Returns a job that was handed out at its due time, while the store does not answer its start.
    fn handed_out(&self) -> Claimed<String> {
        let put = self
            .queue
            .push_keyed("key", job("job"), HORIZON, Merge::Keep);
        assert!(matches!(put, Ok(Put::New(_))));
        let taker = on_thread(&self.queue, |queue| queue.take().unwrap());
        self.wait_for_claim();
        self.slow.store(true, Relaxed);
        self.time.clock.advance(HORIZON);
        let taken = taker.join().unwrap();
        self.gate.wait_for_arrivals(1);
        taken
    }

    fn answer(&self) {
        self.slow.store(false, Relaxed);
        self.gate.open();
    }
}

#[testkit::test]
fn a_job_claimed_ahead_is_handed_out_before_the_store_has_answered() {
    let world = World::new();
    let taken = world.handed_out();
    assert_eq!((&**taken, taken.attempt()), ("job", 1));
    world.answer();
    taken.ack().unwrap();
    assert_eq!(world.queue.store_stats().unwrap().jobs, 0);
    assert_eq!(world.queue.stats().stale, 0);
}

#[testkit::test]
fn an_unconfirmed_job_has_a_lease_and_an_attempt_from_its_handout_on() {
    let world = World::new();
    let taken = world.handed_out();
    world.answer();
    taken.extend(HORIZON).unwrap(); // After the start.
    let listed = world.queue.list(None, 1).unwrap();
    assert_eq!(listed[0].state, JobState::Running);
    assert_eq!(listed[0].attempts, 1);
    drop(taken);
}

/// As after a suspension of the process: another process may have the job.
#[testkit::test]
fn a_job_whose_lease_has_expired_is_not_handed_out_without_confirmation() {
    let world = World::new();
    let World { time, queue, .. } = &world;
    queue.push(job("job"), HORIZON).unwrap();
    let taker = on_thread(queue, |queue| queue.take().unwrap());
    world.wait_for_claim();
    world.slow.store(true, Relaxed);
    time.clock.advance(LEASE * 2);
    world.gate.wait_for_arrivals(1);
    assert_eq!(queue.stats().taken, 0);
    world.answer();
    taker.join().unwrap().ack().unwrap();
}

/// With confirmation the same job waits for the response.
#[testkit::test]
fn with_confirmation_no_job_is_handed_out_before_the_store_has_answered() {
    let world = World::new();
    let confirms = world.time.queue(world.queue.store().clone());
    confirms.push(job("job"), HORIZON).unwrap();
    let taker = on_thread(&confirms, |queue| queue.take().unwrap().id());
    world.wait_for_claim();
    world.slow.store(true, Relaxed);
    world.time.clock.advance(HORIZON);
    world.gate.wait_for_arrivals(1);
    assert_eq!(confirms.stats().taken, 0);
    world.answer();
    taker.join().unwrap();
}

#[testkit::test]
fn a_cancel_reset_or_merge_before_the_due_time_recalls_a_job() {
    for by in ["cancel", "reset", "merge"] {
        let world = World::new();
        let queue = &world.queue;
        queue
            .push_keyed("key", job("first"), HORIZON, Merge::Keep)
            .unwrap();
        let taker = on_thread(queue, |queue| queue.take().unwrap());
        world.wait_for_claim();
        match by {
            "cancel" => assert!(queue.cancel("key").unwrap().is_gone()),
            "reset" => assert_eq!(queue.reset("key", HORIZON * 9).unwrap(), Reset::Moved),
            _ => {
                let merged = queue.push_keyed("key", job("new"), HORIZON * 9, Merge::Latest);
                assert!(matches!(merged, Ok(Put::Merged(_))));
            }
        }
        queue.push(job("other"), HORIZON).unwrap();
        world.time.advance(HORIZON);
        assert_eq!(**taker.join().unwrap(), *"other", "{by}");
    }
}

#[testkit::test]
fn from_the_due_time_on_a_cancel_returns_taken() {
    let world = World::new();
    let taken = world.handed_out();
    assert_eq!(world.queue.cancel("key").unwrap(), Cancelled::Taken);
    assert_eq!(world.queue.reset("key", When::NOW).unwrap(), Reset::Taken);
    world.answer();
    taken.ack().unwrap();
}

/// The merge reaches the store first: its value is not lost.
#[testkit::test]
fn a_merge_before_the_start_takes_the_lease_from_the_handler() {
    let world = World::new();
    let taken = world.handed_out();
    let merged = world
        .queue
        .push_keyed("key", job("new"), When::NOW, Merge::Latest);
    assert!(matches!(merged, Ok(Put::Merged(_))));
    world.answer();
    let next = world.queue.take().unwrap();
    assert!(taken.is_lost());
    assert!(taken.ack().unwrap_err().is_stale());
    assert_eq!((&**next, next.attempt()), ("new", 1));
    assert_eq!(world.queue.stats().stale, 1);
    next.ack().unwrap();
}

#[testkit::test]
fn a_job_is_handed_out_again_if_a_pause_comes_before_its_start() {
    let world = World::new();
    let taken = world.handed_out();
    world.queue.pause(true).unwrap();
    world.answer();
    assert!(taken.ack().unwrap_err().is_stale());
    while world.queue.store_stats().unwrap().due == 0 {
        std::thread::yield_now(); // It is released, and waits for no lease to expire.
    }
    world.queue.pause(false).unwrap();
    let again = world.queue.take().unwrap();
    assert_eq!((&**again, again.attempt()), ("job", 1));
}

/// At any point, with any response: the start is repeated until it is answered.
#[testkit::test]
fn a_start_whose_response_is_lost_is_repeated_and_counts_once() {
    for fault in [Fault::Before, Fault::After, Fault::Twice] {
        let time = Time::new();
        let next = Arc::new(Mutex::new(Fault::None));
        let plan = {
            let next = Arc::clone(&next);
            move |call| match call {
                Call::Turn => std::mem::replace(&mut *next.lock().unwrap(), Fault::None),
                _ => Fault::None,
            }
        };
        let store = SimStore::with_faults(time.store.clone(), plan);
        let queue = time.builder(store).confirm(false).build().unwrap();
        queue.push(job("job"), HORIZON).unwrap();
        let taker = on_thread(&queue, |queue| queue.take().unwrap());
        while queue.list(None, 1).unwrap()[0].state != JobState::Claimed {
            std::thread::yield_now();
        }
        time.clock.wait_for_sleepers(1);
        *next.lock().unwrap() = fault;
        time.clock.advance(HORIZON);
        let taken = taker.join().unwrap();
        let acker = std::thread::spawn(move || taken.ack());
        while !acker.is_finished() {
            if time.clock.sleepers() > 0 {
                time.clock.advance(HORIZON); // The pause after an error.
            }
            std::thread::yield_now();
        }
        acker.join().unwrap().unwrap();
        assert_eq!(queue.store_stats().unwrap().jobs, 0, "{fault:?}");
        assert_eq!(queue.stats().taken, 1);
    }
}

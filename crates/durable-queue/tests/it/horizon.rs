//! The horizon on fast and slow stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

use durable_queue::internals::LONGEST_HORIZON;
use durable_queue::store::JobState;
use durable_queue::{BuildError, Builder, DurableQueue, HORIZON, LEASE, When};
use durable_queue_testing::{Call, Fault, SimStore};
use sync_shim::Clock as _;

use crate::support::{SECOND, Time, job};

const MS: Duration = Duration::from_millis(1);
/// Longer than any call waits for other reasons.
const FAR: Duration = Duration::from_secs(30);

/// A queue on a store whose turns take `takes` milliseconds, which the test may change.
struct World {
    time: Time,
    queue: DurableQueue<String, SimStore>,
    turns: Arc<AtomicU32>,
}

impl World {
    fn new(
        turns: u32,
        set: impl FnOnce(Builder<String, SimStore>) -> Builder<String, SimStore>,
    ) -> Self {
        let time = Time::new();
        let turns = Arc::new(AtomicU32::new(turns));
        let (clock, takes) = (time.clock.clone(), Arc::clone(&turns));
        let store = SimStore::with_faults(time.store.clone(), move |call| {
            if call == Call::Turn {
                // Relaxed: changed while the pump sleeps.
                clock.advance(MS * takes.load(Relaxed));
            }
            Fault::None
        });
        let queue = set(time.builder(store)).build().unwrap();
        Self { time, queue, turns }
    }

    /// Two turns.
    fn work_off_one(&self) {
        self.queue.push(job("job"), When::NOW).unwrap();
        self.queue.take().unwrap().ack().unwrap();
    }

    /// Waits until the pump sleeps for a job that is due in `FAR`, and checks that it will claim the job
    /// `horizon` before that.
    fn assert_claims_before_the_time(&self, horizon: Duration) {
        let due = self.time.clock.now() + FAR;
        self.queue.push(job("job"), FAR).unwrap();
        self.queue.announce(); // Otherwise it would sleep until the end of the last job's lease.
        let mut call = Box::pin(self.queue.take_async());
        let mut context = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
        self.wait_for_sleep(due - horizon);
        drop(call);
        let [listed] = &self.queue.list(None, 2).unwrap()[..] else {
            panic!("there is one");
        };
        assert!(self.queue.cancel(listed.id).unwrap().is_gone());
    }

    fn wait_for_sleep(&self, until: std::time::Instant) {
        while self.time.clock.next_due() != Some(until) {
            std::thread::yield_now();
        }
    }
}

#[testkit::test]
fn the_horizon_grows_with_the_duration_of_turns() {
    let expected = [
        (0, HORIZON),
        (125, HORIZON),
        (126, MS * 4 * 126),
        (500, SECOND * 2),
        (5_000, LONGEST_HORIZON),
    ];
    for (turns, horizon) in expected {
        let world = World::new(turns, |builder| builder);
        world.work_off_one();
        world.assert_claims_before_the_time(horizon);
    }
}

#[testkit::test]
fn half_of_the_lease_is_left_at_the_due_time() {
    let world = World::new(600, |builder| builder.lease(SECOND * 2));
    world.work_off_one();
    world.assert_claims_before_the_time(SECOND);
}

#[testkit::test]
fn a_slow_turn_is_forgotten_after_some_fast_ones() {
    let world = World::new(200, |builder| builder);
    world.work_off_one();
    world.assert_claims_before_the_time(MS * 800);
    world.turns.store(0, Relaxed);
    for _ in 0..5 {
        world.work_off_one();
    }
    world.assert_claims_before_the_time(HORIZON);
}

#[testkit::test]
fn a_configured_horizon_does_not_change() {
    for horizon in [MS * 100, Duration::ZERO, SECOND * 9] {
        let world = World::new(600, |builder| builder.horizon(horizon));
        world.work_off_one();
        world.assert_claims_before_the_time(horizon);
    }
    let time = Time::new();
    let short = time.builder(time.sim()).lease(LEASE).horizon(LEASE).build();
    assert_eq!(short.unwrap_err(), BuildError::ShortLease);
}

/// With a horizon of half a second the claim would end after the job's due time.
#[testkit::test]
fn on_a_slow_store_a_job_is_claimed_before_it_is_due() {
    let world = World::new(600, |builder| builder.confirm(false));
    world.work_off_one();
    let due = world.time.clock.now() + FAR;
    world.queue.push(job("job"), FAR).unwrap();
    world.queue.announce(); // As above.
    let mut call = Box::pin(world.queue.take_async());
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending());
    let claim = due - MS * 600 * 4;
    world.wait_for_sleep(claim);
    world.time.clock.advance(claim - world.time.clock.now());
    world.wait_for_sleep(due);
    let listed = world.queue.list(None, 1).unwrap();
    assert_eq!(listed[0].state, JobState::Claimed);
}

//! The rate limit, and jobs over it.

use std::future::Future;
use std::num::{NonZeroU32, NonZeroUsize};
use std::task::{Context, Waker};
use std::time::Duration;

use durable_queue::store::JobState;
use durable_queue::{DurableQueue, HORIZON, When};
use durable_queue_testing::SimStore;

use sync_shim::Clock as _;

use crate::support::{SECOND, Time, job, on_thread};

const ALL: NonZeroUsize = NonZeroUsize::new(100).unwrap();

fn limited(time: &Time, store: SimStore, burst: u32) -> DurableQueue<String, SimStore> {
    let burst = NonZeroU32::new(burst).unwrap();
    let builder = time.builder(store).prefetch(10).rate(SECOND, burst);
    builder.build().unwrap()
}

/// Waits until the pump has seen the waiting call, and sleeps for `span`.
fn wait_for_sleep(time: &Time, span: Duration) {
    let until = time.clock.now() + span;
    while time.clock.next_due() != Some(until) {
        std::thread::yield_now();
    }
}

fn push_now(queue: &DurableQueue<String, SimStore>, jobs: usize) {
    let jobs = (0..jobs).map(|index| (index.to_string(), When::NOW));
    queue.push_batch(jobs.collect()).unwrap();
}

#[testkit::test]
fn jobs_start_no_faster_than_the_rate() {
    let time = Time::new();
    let queue = limited(&time, time.sim(), 3);
    push_now(&queue, 10);
    assert_eq!(queue.take_many(ALL).unwrap().len(), 3, "the burst");
    for _ in 0..2 {
        let taker = on_thread(&queue, |queue| queue.take_many(ALL).unwrap().len());
        wait_for_sleep(&time, SECOND);
        time.clock.advance(SECOND - Duration::from_micros(1));
        wait_for_sleep(&time, Duration::from_micros(1));
        assert!(!taker.is_finished());
        time.clock.advance(Duration::from_micros(1));
        assert_eq!(taker.join().unwrap(), 1, "one for each interval");
    }
    // After a pause only the burst is available, and no more.
    time.clock.advance(SECOND * 100);
    assert_eq!(queue.take_many(ALL).unwrap().len(), 3);
}

/// The pump has woken up by itself, and must not take that for a wake-up by another party.
#[testkit::test]
fn a_pump_that_gets_a_token_but_knows_of_no_job_sleeps_again() {
    let time = Time::new();
    let queue = limited(&time, time.sim(), 1);
    push_now(&queue, 1);
    queue.take().unwrap().ack().unwrap();
    let taker = on_thread(&queue, |queue| queue.take().is_err());
    wait_for_sleep(&time, SECOND);
    time.clock.advance(SECOND);
    time.clock.wait_for_sleepers(1);
    queue.close();
    assert!(taker.join().unwrap());
}

#[testkit::test]
fn jobs_over_the_rate_are_left_to_other_processes() {
    let time = Time::new();
    let queue = limited(&time, time.sim(), 2);
    let other = time.queue(queue.store().clone());
    push_now(&queue, 5);
    let first = queue.take().unwrap();
    let held = queue.list(None, 10).unwrap();
    let held = held.iter().filter(|job| job.state.is_held());
    assert_eq!(
        held.count(),
        2,
        "as many as there are tokens, prefetch or not"
    );
    assert_eq!(other.take_many(ALL).unwrap().len(), 3);
    drop(first);
}

/// An earlier job has used its token.
#[testkit::test]
fn a_claim_ahead_that_exceeds_the_rate_at_its_due_time_is_released() {
    let time = Time::new();
    let queue = limited(&time, time.sim(), 1);
    let other = time.queue(queue.store().clone());
    queue.push(job("ahead"), HORIZON).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    wait_for_sleep(&time, HORIZON);
    assert_eq!(queue.list(None, 1).unwrap()[0].state, JobState::Claimed);
    queue.push(job("now"), When::NOW).unwrap();
    let now = taker.join().unwrap();
    assert_eq!(**now, *"now");
    let mut waits = Box::pin(queue.take_async());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    time.advance(HORIZON);
    assert_eq!(**other.take().unwrap(), *"ahead");
}

/// Neither claims nor polls, because no job could start.
#[testkit::test]
fn while_the_rate_is_exhausted_the_store_is_not_called() {
    let time = Time::new();
    let queue = limited(&time, time.sim(), 1);
    push_now(&queue, 3);
    let first = queue.take().unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    wait_for_sleep(&time, SECOND);
    let turns = queue.stats().turns;
    for _ in 0..9 {
        queue.push(job("another"), When::NOW).unwrap();
        time.advance(SECOND / 10);
    }
    wait_for_sleep(&time, SECOND / 10);
    assert_eq!(queue.stats().turns, turns);
    time.advance(SECOND / 10);
    assert_eq!(**taker.join().unwrap(), *"1");
    drop(first);
}

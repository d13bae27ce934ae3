//! Shutdown: claimed jobs that have not started are released, running ones are waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use durable_queue::internals::FIRST_PAUSE;
use durable_queue::{HORIZON, LEASE, SettleError, ShutDown, TakeError, When};
use durable_queue_testing::{Call, Fault, SimStore};
use sync_shim::Clock as _;
use testkit::Gate;

use crate::support::{LONG, SECOND, Time, job, on_thread, steal};

#[testkit::test]
fn a_shutdown_releases_claimed_jobs_that_have_not_started() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("ahead"), HORIZON).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap_err());
    time.clock.wait_for_sleepers(1); // It is claimed.
    assert_eq!(queue.shutdown(SECOND), ShutDown::Finished);
    assert!(matches!(taker.join().unwrap(), TakeError::ShutDown));
    time.clock.advance(HORIZON);
    let other = time.queue(queue.store().clone());
    assert_eq!(other.take().unwrap().attempt(), 1);
    assert!(queue.take().unwrap_err().is_shut_down());
    assert!(queue.push(job("later"), When::NOW).is_ok(), "pushes go on");
}

/// Before the pump ends, as soon as the store responds again.
#[testkit::test]
fn a_shutdown_releases_the_jobs_of_a_lost_claim() {
    let time = Time::new();
    let is_lost = AtomicBool::new(true);
    let store = SimStore::with_faults(time.store.clone(), move |call| match call {
        Call::Turn if is_lost.swap(false, SeqCst) => Fault::After,
        _ => Fault::None,
    });
    let queue = time.queue(store);
    queue.push(job("held"), When::NOW).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap_err());
    time.clock.wait_for_sleepers(1); // The pump pauses.
    let ender = on_thread(&queue, |queue| queue.shutdown(LEASE / 2));
    assert!(taker.join().unwrap().is_shut_down());
    time.clock.wait_for_sleepers(2); // The pump and the shutdown.
    time.clock.advance(FIRST_PAUSE);
    assert_eq!(ender.join().unwrap(), ShutDown::Finished);
    let listed = &queue.list(None, 1).unwrap()[0];
    assert_eq!((listed.state.is_held(), listed.attempts), (false, 0));
}

/// The pump's own settles are carried out before it ends, too.
#[testkit::test]
fn a_shutdown_buries_a_job_without_attempts_that_a_claim_in_progress_returns() {
    let time = Time::new();
    let (is_slow, gate) = (Arc::new(AtomicBool::new(false)), Gate::new());
    let store = {
        let (is_slow, gate) = (Arc::clone(&is_slow), gate.clone());
        SimStore::with_faults(time.store.clone(), move |call| {
            if call == Call::Turn && is_slow.load(SeqCst) {
                gate.wait();
            }
            Fault::None
        })
    };
    let queue = time.builder(store).max_attempts(1).build().unwrap();
    queue.push(job("spent"), When::NOW).unwrap();
    // Its only attempt did not finish.
    steal(queue.store());
    time.clock.advance(LEASE);
    is_slow.store(true, SeqCst);
    let taker = on_thread(&queue, |queue| queue.take().unwrap_err());
    gate.wait_for_arrivals(1);
    let ender = on_thread(&queue, |queue| queue.shutdown(LEASE));
    assert!(taker.join().unwrap().is_shut_down());
    gate.open();
    assert_eq!(ender.join().unwrap(), ShutDown::Finished);
    assert_eq!(queue.dead(None, 10).unwrap().len(), 1);
}

#[testkit::test]
fn a_shutdown_waits_for_running_handlers() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    let ender = on_thread(&queue, |queue| queue.shutdown(LEASE * 10));
    // The pump renews meanwhile, so there are two sleepers: the pump and the shutdown.
    for _ in 0..6 {
        time.clock.wait_for_sleepers(2);
        time.clock.advance(LEASE / 2);
    }
    assert!(!ender.is_finished());
    taken.ack().unwrap();
    assert_eq!(ender.join().unwrap(), ShutDown::Finished);
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn a_shutdown_waits_no_longer_than_its_timeout() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    let ender = on_thread(&queue, |queue| queue.shutdown(SECOND));
    time.clock.wait_for_sleepers(2);
    time.clock.advance(SECOND);
    assert_eq!(ender.join().unwrap(), ShutDown::TimedOut);
    // The pump may still be ending; the result is the same.
    assert_eq!(queue.shutdown(Duration::ZERO), ShutDown::TimedOut);
    loop {
        match taken.extend(LEASE) {
            Ok(()) => thread::yield_now(),
            Err(SettleError::ShutDown) => break,
            Err(other) => panic!("{other}"),
        }
    }
    time.clock.advance(LEASE * 2);
    let other = time.queue(queue.store().clone());
    assert_eq!(other.take().unwrap().attempt(), 2);
}

#[test]
fn a_queue_that_never_took_a_job_shuts_down_at_once() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    assert_eq!(queue.shutdown(Duration::ZERO), ShutDown::Finished);
    assert!(queue.take().unwrap_err().is_shut_down());
}

#[testkit::test]
fn a_guard_outlives_the_last_handle_and_can_be_settled() {
    let time = Time::new();
    let sim = time.sim();
    let queue = time.queue(sim.clone());
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    drop(queue);
    taken.ack().unwrap();
    assert_eq!(time.queue(sim).store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn a_later_shutdown_with_an_earlier_deadline_ends_the_wait_of_both() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("held"), When::NOW).unwrap();
    let held = queue.take().unwrap();
    let patient = on_thread(&queue, |queue| queue.shutdown(LONG));
    time.clock.wait_for_sleepers(2); // One of them is the pump.
    let soon = time.clock.now() + SECOND;
    let hasty = on_thread(&queue, move |queue| queue.shutdown(soon));
    time.clock.wait_for_sleepers(3);
    time.clock.advance(SECOND);
    for ender in [patient, hasty] {
        assert_eq!(ender.join().unwrap(), ShutDown::TimedOut);
    }
    drop(held);
}

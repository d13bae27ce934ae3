//! Clocks of async runtimes.

use std::time::Duration;

use delay_queue::DelayQueue;
use sync_shim::Clock;
#[cfg(feature = "tokio")]
use {
    crate::support::{SECOND, poll_with},
    delay_queue::{TakeError, TokioClock},
    testkit::CountingWaker,
    tokio::runtime::{Builder, Runtime},
};

use crate::support::NOW;

const MILLISECOND: Duration = Duration::from_millis(1);

#[cfg(feature = "tokio")]
fn runtime(paused: bool) -> (Runtime, TokioClock) {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(paused).build().unwrap();
    let clock = TokioClock::new(runtime.handle().clone());
    (runtime, clock)
}

#[cfg(feature = "tokio")]
#[testkit::test]
fn the_tokio_clock_follows_paused_time() {
    let (runtime, clock) = runtime(true);
    let queue = DelayQueue::with_clock(clock.clone());
    queue.push("late", 3600 * SECOND).unwrap();
    queue.push("early", 1800 * SECOND).unwrap();
    let start = clock.now();
    assert_eq!(clock.now(), start, "it stands still");
    runtime.block_on(async {
        // tokio advances paused time when no task is runnable.
        for (value, hours) in [("early", 1), ("late", 2)] {
            let taken = queue.take_async().await.unwrap();
            assert_eq!(taken.value, value);
            assert_eq!(taken.due, start + hours * 1800 * SECOND);
            assert!(clock.now() >= taken.due);
        }
        tokio::time::advance(SECOND).await;
    });
    assert!(clock.now() >= start + 3601 * SECOND);
}

#[cfg(feature = "tokio")]
#[testkit::test]
fn tokios_timer_waits_for_an_hour_and_for_three_years() {
    let (runtime, clock) = runtime(true);
    let queue = DelayQueue::with_clock(clock);
    let years = Duration::from_secs(3 * 365 * 24 * 3600);
    queue.push("far", years).unwrap();
    let taken = runtime.block_on(queue.take_async()).unwrap();
    assert_eq!(taken.value, "far");
}

#[cfg(feature = "tokio")]
#[testkit::test]
fn a_thread_that_waits_in_paused_time_sees_it_advance() {
    let (runtime, clock) = runtime(true);
    let queue = DelayQueue::with_clock(clock.clone());
    queue.push(1, 3 * MILLISECOND).unwrap();
    let taker = crate::support::taker(&queue);
    crate::support::wait_asleep(&queue, 1);
    runtime.block_on(async { tokio::time::advance(3 * MILLISECOND).await });
    assert_eq!(taker.join().unwrap().unwrap().value, 1);
    // The wait itself ends no earlier than its time.
    let when = clock.now() + MILLISECOND;
    let waiter = {
        let clock = clock.clone();
        std::thread::spawn(move || {
            let parker = delay_queue::Parker::new();
            (clock.park_until(&parker, when), clock.now() >= when)
        })
    };
    // Its real time has passed before the paused time is advanced.
    crate::support::until(|| std::time::Instant::now() >= when + MILLISECOND);
    runtime.block_on(async { tokio::time::advance(MILLISECOND).await });
    assert_eq!(waiter.join().unwrap(), (false, true));
    // An unpark ends the wait at any time.
    let parker = delay_queue::Parker::new();
    parker.unpark();
    assert!(clock.park_until(&parker, clock.now() + SECOND));
}

#[cfg(feature = "tokio")]
#[testkit::test]
fn unpaused_time_is_the_system_clocks() {
    let (runtime, clock) = runtime(false);
    let queue = DelayQueue::with_clock(clock);
    queue.push(1, 2 * MILLISECOND).unwrap();
    queue.push(2, 2 * MILLISECOND).unwrap();
    assert_eq!(runtime.block_on(queue.take_async()).unwrap().value, 1);
    assert_eq!(queue.take().unwrap().value, 2);
    queue.push(3, NOW).unwrap();
    assert_eq!(queue.take().unwrap().value, 3);
}

#[cfg(feature = "tokio")]
#[testkit::test]
fn a_runtime_that_shuts_down_leaves_no_future_waiting() {
    for flavour in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let mut builder = flavour;
        let runtime = builder.worker_threads(1).enable_time().build().unwrap();
        let queue = DelayQueue::with_clock(TokioClock::new(runtime.handle().clone()));
        queue.push(1, 3600 * SECOND).unwrap();
        let waker = CountingWaker::new();
        let mut future = queue.take_async();
        assert!(poll_with(&mut future, &waker.waker()).is_pending());
        drop(runtime);
        waker.wait_for_wakes(1);
        let told = poll_with(&mut future, &waker.waker());
        assert!(matches!(
            told,
            std::task::Poll::Ready(Err(TakeError::NoAlarm(_)))
        ));
        // Later futures get the error at once.
        let told = testkit::block_on(queue.take_async());
        assert!(matches!(told, Err(TakeError::NoAlarm(_))));
        assert_eq!(queue.len(), 1);
    }
}

#[cfg(feature = "tokio")]
#[testkit::test]
fn a_cancelled_alarm_does_not_ring() {
    let (runtime, clock) = runtime(true);
    let waker = CountingWaker::new();
    let alarm = clock.wake_at(clock.now() + SECOND, waker.waker()).unwrap();
    drop(alarm);
    let kept = clock
        .wake_at(clock.now() + 2 * SECOND, waker.waker())
        .unwrap();
    assert_eq!(waker.wakers(), 1, "the other waker is dropped");
    runtime.block_on(async { tokio::time::sleep(3 * SECOND).await });
    assert_eq!(waker.wakes(), 1);
    drop(kept);
    assert_eq!((waker.wakes(), waker.wakers()), (1, 0));
}

#[cfg(feature = "tokio")]
#[test]
fn a_runtime_without_a_timer_is_an_error_at_once() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let clock = std::panic::catch_unwind(|| TokioClock::new(runtime.handle().clone()));
    assert!(clock.is_err());
}

#[cfg(feature = "async-io")]
#[testkit::test]
fn async_ios_timers_wake_futures() {
    use delay_queue::AsyncIoClock;
    let queue = DelayQueue::with_clock(AsyncIoClock);
    for n in [3, 1, 2] {
        queue.push(n, n * MILLISECOND).unwrap();
    }
    queue.close();
    // Without async-io's own `block_on`: its own thread drives the timers.
    let taken = std::iter::from_fn(|| testkit::block_on(queue.take_async()).ok());
    assert_eq!(taken.count(), 3);
    queue.clear();
}

#[cfg(feature = "async-io")]
#[testkit::test]
fn the_async_io_clock_parks_threads_and_cancels_alarms() {
    use delay_queue::AsyncIoClock;
    let queue = DelayQueue::with_clock(AsyncIoClock);
    queue.push(1, MILLISECOND).unwrap();
    assert_eq!(queue.take().unwrap().value, 1);
    let waker = testkit::CountingWaker::new();
    let past = AsyncIoClock
        .wake_at(AsyncIoClock.now(), waker.waker())
        .unwrap();
    waker.wait_for_wakes(1);
    drop(past);
    let far = AsyncIoClock.now() + Duration::from_secs(3600);
    let alarm = AsyncIoClock.wake_at(far, waker.waker()).unwrap();
    drop(alarm);
    // async-io drops the waker of a cancelled alarm at its next activity.
    crate::support::until(|| {
        let other = testkit::CountingWaker::new();
        drop(AsyncIoClock.wake_at(far, other.waker()));
        waker.wakers() == 0
    });
    queue.push(2, NOW).unwrap();
    assert_eq!(queue.take().unwrap().value, 2);
}

//! Handles of spawned tasks: values, outcomes, cancelling, detaching.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pool_core::{Clock, DropPolicy, JoinError, ManualClock, Pool};
use testkit::{CountingWaker, DropCounter, Gate, block_on};

use crate::support::{Journal, end, hold, poll, poll_with, pool, queueing, until, wait_in_line};

#[testkit::test]
fn a_handle_returns_the_tasks_value() {
    let pool = pool(2);
    assert_eq!(pool.spawn(|| "joined").unwrap().join().unwrap(), "joined");
    assert_eq!(
        block_on(pool.spawn(|| "awaited").unwrap()).unwrap(),
        "awaited"
    );
    let handle = block_on(pool.spawn_async(|| "entered")).unwrap();
    assert_eq!(handle.join().unwrap(), "entered");
}

#[testkit::test]
fn a_handle_returns_the_payload_and_location_of_a_panic() {
    let pool = Pool::builder().capacity(1).name("kitchen").build().unwrap();
    let handle = pool.spawn(|| panic!("burnt toast")).unwrap();
    let Err(JoinError::Panicked(mut panicked)) = handle.join() else {
        panic!("it panicked");
    };
    assert_eq!(
        (panicked.message(), panicked.pool()),
        (Some("burnt toast"), "kitchen")
    );
    assert!(panicked.payload_mut().is::<&'static str>());
    let handle = pool.spawn(|| std::panic::panic_any(42_u8)).unwrap();
    let error = handle.join().unwrap_err();
    assert_eq!(error.to_string(), "the task panicked in pool `kitchen`");
    assert_eq!(*error.into_panic().unwrap().downcast::<u8>().unwrap(), 42);
}

#[testkit::test]
fn spawn_returns_while_the_task_runs() {
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(1)
        .keep_alive(None)
        .clock(clock.clone());
    let pool = pool.build().unwrap();
    let gate = Gate::new();
    let held = gate.clone();
    let handle = pool.spawn(move || held.wait()).unwrap();
    assert!(!handle.is_finished());
    let handle = handle.try_join().unwrap_err();
    let handle = handle.join_timeout(Duration::ZERO).unwrap_err();
    let deadline = clock.now();
    let handle = handle.join_timeout(deadline).unwrap_err();
    let waiter = thread::spawn(move || handle.join_timeout(Duration::from_secs(5)));
    clock.wait_for_sleepers(1);
    clock.advance(Duration::from_secs(5));
    let handle = waiter.join().unwrap().unwrap_err();
    gate.open();
    until(|| handle.is_finished());
    handle.try_join().unwrap().unwrap();
}

#[testkit::test]
fn a_polled_handle_is_ready_once_and_then_returns_already_taken() {
    let pool = pool(1);
    let gate = Gate::new();
    let held = gate.clone();
    let mut handle = pool.spawn(move || held.wait()).unwrap();
    let (stale, fresh) = (CountingWaker::new(), CountingWaker::new());
    assert!(poll_with(&mut handle, &stale.waker()).is_pending());
    assert!(poll_with(&mut handle, &fresh.waker()).is_pending());
    assert_eq!(
        (stale.wakers(), fresh.wakers()),
        (0, 1),
        "the replaced waker was dropped"
    );
    gate.open();
    fresh.wait_for_wakes(1);
    assert!(matches!(poll(&mut handle), Poll::Ready(Ok(()))));
    assert!(matches!(
        poll(&mut handle),
        Poll::Ready(Err(JoinError::Taken))
    ));
    assert!(matches!(handle.join(), Err(JoinError::Taken)));
    assert_eq!((stale.wakes(), fresh.wakes()), (0, 1));
    until(|| fresh.wakers() == 0);
}

#[testkit::test]
fn a_handle_polled_first_can_be_joined_by_a_thread() {
    let pool = pool(1);
    let gate = Gate::new();
    let held = gate.clone();
    let mut handle = pool.spawn(move || held.wait()).unwrap();
    let waker = CountingWaker::new();
    assert!(poll_with(&mut handle, &waker.waker()).is_pending());
    let joiner = thread::spawn(move || handle.join());
    until(|| waker.wakers() == 0); // The joiner has replaced the waker.
    gate.open();
    joiner.join().unwrap().unwrap();
    assert_eq!(waker.wakes(), 0);
}

#[testkit::test]
fn cancelling_a_queued_task_drops_its_captures_before_it_returns() {
    struct Whereabouts(Journal<thread::ThreadId>);
    impl Drop for Whereabouts {
        fn drop(&mut self) {
            self.0.write(thread::current().id());
        }
    }
    let pool = queueing(10);
    let gate = hold(&pool, 1);
    let dropped = Journal::new();
    let capture = Whereabouts(dropped.clone());
    let handle = pool.try_spawn(move || drop(capture)).unwrap();
    assert!(handle.cancel());
    assert_eq!(dropped.entries(), [thread::current().id()]);
    assert!(handle.is_finished() && !handle.cancel(), "only once");
    assert_eq!(
        (pool.queued(), pool.in_flight(), pool.stats().cancelled),
        (0, 1, 1),
        "it is gone, though no worker has come by"
    );
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    gate.open();
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.cancelled, stats.completed), (0, 1, 1));
    assert_eq!(stats.submitted, 2);
}

#[testkit::test]
fn a_started_task_is_not_cancelled() {
    let pool = pool(1);
    let gate = Gate::new();
    let held = gate.clone();
    let handle = pool.spawn(move || held.wait()).unwrap();
    gate.wait_for_arrivals(1);
    assert!(!handle.cancel());
    gate.open();
    until(|| handle.is_finished());
    assert!(!handle.cancel());
    handle.join().unwrap();
}

#[testkit::test]
fn a_cancel_racing_a_worker_cancels_or_runs_the_task() {
    let pool = pool(2);
    let mut cancelled = 0;
    for _ in 0..3000 {
        let ran = Arc::new(AtomicBool::new(false));
        let task = {
            let ran = Arc::clone(&ran);
            move || ran.store(true, SeqCst)
        };
        let handle = pool.spawn(task).unwrap();
        let won = handle.cancel();
        match handle.join() {
            Ok(()) => assert!(!won && ran.load(SeqCst)),
            Err(JoinError::Cancelled) => assert!(won && !ran.load(SeqCst)),
            Err(other) => panic!("{other}"),
        }
        cancelled += u64::from(won);
    }
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.cancelled, stats.completed),
        (cancelled, 3000 - cancelled)
    );
}

#[testkit::test]
fn a_cancel_wakes_the_future_that_awaits_the_handle() {
    let pool = queueing(10);
    let gate = hold(&pool, 1);
    let mut handle = pool.try_spawn(|| ()).unwrap();
    let waker = CountingWaker::new();
    assert!(poll_with(&mut handle, &waker.waker()).is_pending());
    assert!(handle.cancel());
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(
        poll(&mut handle),
        Poll::Ready(Err(JoinError::Cancelled))
    ));
    gate.open();
}

#[testkit::test]
fn a_task_whose_handle_is_dropped_runs_and_its_value_is_dropped() {
    let pool = pool(1);
    let drops = DropCounter::new();
    let gate = Gate::new();
    let (held, token) = (gate.clone(), drops.token());
    let handle = pool.spawn(move || {
        held.wait();
        token
    });
    drop(handle.unwrap());
    gate.open();
    pool.wait_idle().unwrap();
    end(&pool);
    assert_eq!((drops.alive(), pool.stats().completed), (0, 1));
}

#[testkit::test]
fn an_untaken_value_is_dropped_with_its_handle() {
    let pool = pool(1);
    let drops = DropCounter::new();
    let token = drops.token();
    let handle = pool.spawn(move || token).unwrap();
    until(|| handle.is_finished());
    assert_eq!(drops.alive(), 1);
    drop(handle);
    assert_eq!(drops.alive(), 0);
}

#[testkit::test]
fn a_handle_outlives_its_pool() {
    for (policy, value) in [(DropPolicy::Drain, true), (DropPolicy::Discard, false)] {
        let pool = Pool::builder()
            .capacity(1)
            .queue_depth(1)
            .drop_policy(policy);
        let pool = pool.build().unwrap();
        let gate = hold(&pool, 1);
        let handle = pool.try_spawn(|| 3).unwrap();
        drop(pool);
        gate.open();
        match handle.join() {
            Ok(3) => assert!(value),
            Err(JoinError::Released) => assert!(!value),
            other => panic!("{other:?}"),
        }
    }
}

#[testkit::test]
fn the_statistics_include_a_task_when_its_join_returns() {
    let pool = pool(1);
    for round in 1..=1000 {
        let fails = round % 2 == 0;
        let handle = pool.spawn(move || {
            if fails {
                std::panic::resume_unwind(Box::new(()));
            }
        });
        assert_eq!(handle.unwrap().join().is_err(), fails);
        let stats = pool.stats();
        assert_eq!((stats.in_flight, stats.busy), (0, 0));
        assert_eq!(stats.completed + stats.panicked, round);
    }
}

#[testkit::test]
#[expect(
    clippy::large_stack_arrays,
    reason = "the test is about values on the stack"
)]
fn a_closure_of_256_kib_fits_on_a_workers_stack() {
    let test = || {
        let pool = pool(1);
        let captured = [7_u8; 256 << 10];
        let handle = pool.spawn(move || captured[captured.len() - 1]).unwrap();
        assert_eq!(handle.join().unwrap(), 7);
        let gate = hold(&pool, 1);
        let refused = pool.try_spawn(move || captured[0]).unwrap_err();
        assert_eq!(refused.into_task()(), 7, "the boxed closure is returned");
        gate.open();
    };
    // The caller passes the closure by value through several calls.
    let caller = thread::Builder::new().stack_size(64 << 20).spawn(test);
    caller.unwrap().join().unwrap();
}

#[testkit::test]
fn a_cancel_hands_the_tasks_room_to_the_first_waiter_at_once() {
    let pool = queueing(1);
    let gate = hold(&pool, 1);
    let queued = pool.try_spawn(|| ()).unwrap();
    let thread = wait_in_line(&pool, || ());
    assert!(queued.cancel());
    thread.join().unwrap().unwrap(); // Accepted, although no worker is free.
    assert_eq!((pool.queued(), pool.in_flight()), (1, 2));
    gate.open();
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.cancelled), (2, 1));
}

#[testkit::test]
fn a_cancel_wakes_the_waiting_future_that_gets_the_room() {
    let pool = queueing(1);
    let gate = hold(&pool, 1);
    let queued = pool.try_spawn(|| ()).unwrap();
    let (mut entering, waker) = (pool.submit_async(|| ()), CountingWaker::new());
    assert!(poll_with(&mut entering, &waker.waker()).is_pending());
    assert!(queued.cancel());
    assert_eq!((waker.wakes(), pool.queued()), (1, 1));
    assert!(matches!(poll(&mut entering), Poll::Ready(Ok(()))));
    gate.open();
}

#[testkit::test]
fn spawn_and_cancel_in_a_loop_on_a_busy_pool_is_never_refused() {
    let pool = queueing(2);
    let gate = hold(&pool, 1);
    for _ in 0..10_000 {
        assert!(pool.try_spawn(|| ()).unwrap().cancel());
    }
    assert_eq!((pool.in_flight(), pool.stats().cancelled), (1, 10_000));
    gate.open();
}

#[testkit::test]
fn wait_idle_returns_after_a_cancelled_tasks_captures_are_dropped() {
    struct Held(Gate);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
    let pool = queueing(1);
    let (gate, dropping) = (hold(&pool, 1), Gate::new());
    let capture = Held(dropping.clone());
    let queued = pool.try_spawn(move || drop(capture)).unwrap();
    let canceller = thread::spawn(move || queued.cancel());
    dropping.wait_for_arrivals(1);
    gate.open();
    until(|| pool.stats().completed == 1);
    assert_eq!((pool.in_flight(), pool.queued()), (1, 0));
    pool.try_submit(|| ()).unwrap(); // It holds no room.
    let idle = pool.wait_idle_timeout(Duration::ZERO);
    assert_eq!(idle, Err(pool_core::WaitError::TimedOut));
    dropping.open();
    assert!(canceller.join().unwrap());
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_cancelled_capture_that_waits_for_the_pool_gets_would_deadlock() {
    struct Waits(Pool, Journal<Result<(), pool_core::WaitError>>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.1.write(self.0.wait_idle());
        }
    }
    let pool = queueing(1);
    let (gate, journal) = (hold(&pool, 1), Journal::new());
    let capture = Waits(pool.clone(), journal.clone());
    let queued = pool.try_spawn(move || drop(capture)).unwrap();
    assert!(queued.cancel());
    assert_eq!(
        journal.entries(),
        [Err(pool_core::WaitError::WouldDeadlock)]
    );
    gate.open();
    pool.wait_idle().unwrap();
}

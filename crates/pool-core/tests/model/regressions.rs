//! Races that were bugs once, step by step.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use pool_core::{ManualClock, Pool, WaitError};
use testkit::{CountingWaker, Gate, PanicOnDrop, waker_fn};

fn until(holds: impl Fn() -> bool) {
    while !holds() {
        thread::yield_now();
    }
}

#[testkit::test]
fn a_task_submitted_during_a_failing_thread_start_goes_to_a_parked_worker() {
    let answer = Gate::new();
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(2)
        .clock(clock.clone())
        .thread_gate({
            let (answer, asked) = (answer.clone(), AtomicBool::new(false));
            move || {
                if !asked.swap(true, Relaxed) {
                    return Ok(()); // The first start.
                }
                answer.wait();
                Err(io::ErrorKind::WouldBlock.into())
            }
        })
        .build()
        .unwrap();
    let first = Gate::new();
    let held = first.clone();
    pool.submit(move || held.wait()).unwrap();
    // The submitter is about to learn that the second thread is refused.
    let submitter = thread::spawn({
        let pool = pool.clone();
        move || pool.submit(|| ()).unwrap()
    });
    answer.wait_for_arrivals(1);
    first.open();
    pool.wait_idle().unwrap();
    clock.wait_for_sleepers(1); // The worker has parked.
    pool.submit(|| ()).unwrap();
    answer.open();
    submitter.join().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 3);
}

#[testkit::test]
fn a_task_of_a_worker_started_while_the_capacity_shrank_goes_to_a_parked_worker() {
    let (start, hook) = (Gate::new(), Gate::new());
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(2)
        .clock(clock.clone())
        .thread_gate(second_time(&start))
        .start_hook({
            let held = second_time(&hook);
            move || held().unwrap()
        })
        .build()
        .unwrap();
    let first = Gate::new();
    let held = first.clone();
    pool.submit(move || held.wait()).unwrap();
    // The submitter is starting the second worker. The first one runs the task.
    let submitter = thread::spawn({
        let pool = pool.clone();
        move || pool.submit(|| ()).unwrap()
    });
    start.wait_for_arrivals(1);
    first.open();
    pool.wait_idle().unwrap();
    clock.wait_for_sleepers(1); // The first worker has parked.
    pool.tune(1).unwrap();
    start.open();
    hook.wait_for_arrivals(1); // The new worker exceeds the capacity, and counts as a searcher.
    pool.submit(|| ()).unwrap();
    hook.open();
    pool.wait_idle().unwrap();
    submitter.join().unwrap();
}

/// A thread gate that lets the first start pass and waits at the gate in each later one.
fn second_time(gate: &Gate) -> impl Fn() -> io::Result<()> + Send + Sync + 'static {
    let (gate, called) = (gate.clone(), AtomicBool::new(false));
    move || {
        if called.swap(true, Relaxed) {
            gate.wait();
        }
        Ok(())
    }
}

#[testkit::test]
fn a_release_wakes_every_waiter_although_one_drops_anothers_future_which_panics() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let gate = Gate::new();
    let held = gate.clone();
    pool.submit(move || held.wait()).unwrap();

    let silent = Waker::noop();
    let slot = Arc::new(Mutex::new(None));
    let emptied = Arc::clone(&slot);
    let dropper = waker_fn(move || drop(emptied.lock().unwrap().take()));
    let mut first = pool.submit_async(|| ());
    assert!(poll(&mut first, &dropper).is_none());
    let bomb = PanicOnDrop::new();
    let mut second = pool.submit_async(move || drop(bomb));
    assert!(poll(&mut second, silent).is_none());
    *slot.lock().unwrap() = Some(second);
    let bell = CountingWaker::new();
    let mut third = pool.submit_async(|| ());
    assert!(poll(&mut third, &bell.waker()).is_none());

    assert!(pool.release());
    assert_eq!(bell.wakes(), 1);
    let back = poll(&mut third, silent).expect("it is released");
    assert!(back.unwrap_err().is_released());
    gate.open();
    pool.wait_released().unwrap();
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[testkit::test]
fn prestarted_workers_may_expire_at_once() {
    // Each start after the first waits until the previous worker has ended.
    let (stops, starts) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let stopped = Arc::clone(&stops);
    let pool = Pool::builder()
        .capacity(16)
        .prestart(16)
        .keep_alive(Duration::ZERO)
        .stop_hook(move || _ = stopped.fetch_add(1, Relaxed))
        .thread_gate(move || {
            let started = starts.fetch_add(1, Relaxed);
            until(|| stops.load(Relaxed) == started);
            Ok(())
        })
        .build()
        .unwrap();
    assert_eq!(pool.stats().threads_started, 16);
    pool.release();
    pool.wait_released().unwrap();
}

#[testkit::test]
fn the_end_waits_for_the_drop_of_the_last_unstarted_task() {
    struct HeldInDrop(Gate);
    impl Drop for HeldInDrop {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(1)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let (running, disposing) = (Gate::new(), Gate::new());
    let (held, capture) = (running.clone(), HeldInDrop(disposing.clone()));
    pool.submit(move || held.wait()).unwrap();
    running.wait_for_arrivals(1);
    pool.submit(move || drop(capture)).unwrap();
    let releaser = thread::spawn({
        let pool = pool.clone();
        move || pool.release_now()
    });
    disposing.wait_for_arrivals(1);
    running.open();
    until(|| pool.running() == 0);
    assert_eq!(pool.in_flight(), 1);
    let early = pool.wait_released_timeout(Duration::ZERO);
    assert_eq!(early, Err(WaitError::TimedOut));
    disposing.open();
    assert_eq!(releaser.join().unwrap(), 1);
    pool.wait_released().unwrap();
    assert_eq!(pool.in_flight(), 0);
}

#[testkit::test]
fn the_value_of_a_spawn_whose_future_was_dropped_harms_no_worker() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let (first, second) = (Gate::new(), Gate::new());
    let held = first.clone();
    pool.submit(move || held.wait()).unwrap();
    let held = second.clone();
    let mut spawn = pool.spawn_async(move || {
        held.wait();
        PanicOnDrop::new()
    });
    assert!(poll(&mut spawn, Waker::noop()).is_none());
    first.open();
    second.wait_for_arrivals(1);
    drop(spawn); // Accepted, and its handle was never fetched.
    second.open();
    assert_eq!(pool.spawn(|| 5).unwrap().join().unwrap(), 5);
    pool.release();
    pool.wait_released().unwrap();
    assert_eq!(pool.stats().threads_started, 1);
}

//! `wait_idle`: it returns when every due schedule has ended and the pool is idle.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use pool_core::{Clock, ManualClock, WaitError};
use scheduled_pool::ScheduledPool;
use testkit::{CountingWaker, block_on};

use crate::support::{Gates, Journal, Rig, SECOND, every_second, hold, secs, until, untimed};

fn poll<F: Future>(future: std::pin::Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// A thread that calls `wait_idle` and already sleeps.
fn waits(rig: &Rig) -> (thread::JoinHandle<Result<(), WaitError>>, Arc<AtomicBool>) {
    let returned = Arc::new(AtomicBool::new(false));
    let (scheduled, ours) = (rig.scheduled.clone(), Arc::clone(&returned));
    let limit = rig.clock.now() + secs(3600);
    let before = rig.clock.sleepers();
    let waiter = thread::spawn(move || {
        let waited = scheduled.wait_idle_timeout(limit);
        ours.store(true, SeqCst);
        waited
    });
    until(|| rig.clock.sleepers() > before);
    (waiter, returned)
}

#[testkit::test]
fn wait_idle_ignores_schedules_that_are_due_later() {
    let rig = Rig::new(1);
    assert_eq!(rig.scheduled.wait_idle(), Ok(()), "nothing was scheduled");
    let later = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    let never = rig.scheduled.spawn_after(Duration::MAX, || ()).unwrap();
    assert_eq!(rig.scheduled.wait_idle(), Ok(()));
    assert_eq!(block_on(rig.scheduled.wait_idle_async()), Ok(()));
    assert!(later.cancel() && never.cancel());
    rig.end();
}

#[testkit::test]
fn wait_idle_waits_for_due_schedules_in_every_state() {
    let rig = Rig::new(1);
    let gates = Gates::new(2);
    let runs = rig
        .scheduled
        .spawn_after(secs(0), gates.task(|| ()))
        .unwrap();
    gates.reached(0);
    // The due task waits for room.
    let waiting = rig.scheduled.spawn_after(secs(0), || ()).unwrap();
    until(|| rig.pool.waiting() == 1);
    let (waiter, returned) = waits(&rig);
    gates.open(0);
    assert_eq!(waiter.join().unwrap(), Ok(()));
    assert!(returned.load(SeqCst) && runs.is_finished() && waiting.is_finished());
    rig.end();
}

#[testkit::test]
fn wait_idle_waits_for_the_pools_own_tasks_and_for_tasks_they_schedule() {
    let rig = Rig::new(1);
    let journal = Journal::new();
    let (entries, scheduled) = (journal.clone(), rig.scheduled.clone());
    let gate = hold(&rig.pool, 1);
    let (waiter, _) = waits(&rig);
    let chain = move || {
        entries.write(0);
        let last = entries.clone();
        let then = scheduled.clone();
        let second = move || {
            entries.write(1);
            drop(then.spawn_after(secs(0), last.writer(2)).unwrap());
        };
        drop(scheduled.spawn_after(secs(0), second).unwrap());
    };
    let submits = {
        let pool = rig.pool.clone();
        thread::spawn(move || pool.submit(chain).unwrap())
    };
    until(|| rig.pool.waiting() == 1);
    gate.open();
    submits.join().unwrap();
    assert_eq!(waiter.join().unwrap(), Ok(()));
    assert_eq!(journal.entries(), [0, 1, 2]);
    rig.end();
}

#[testkit::test]
fn a_cancel_a_reset_and_the_end_of_a_series_run_end_wait_idle() {
    let rig = Rig::new(1);
    let gates = Gates::new(2);
    let series = rig
        .scheduled
        .spawn_series(secs(0), &every_second(), gates.task(|| ()))
        .unwrap();
    gates.reached(0);
    let (waiter, _) = waits(&rig);
    gates.open(0);
    assert_eq!(waiter.join().unwrap(), Ok(()), "between two runs");
    assert_eq!(series.runs(), 1);
    assert!(series.cancel());

    let gate = hold(&rig.pool, 1);
    let in_line = rig.scheduled.spawn_after(secs(0), || ()).unwrap();
    until(|| rig.pool.waiting() == 1);
    let (waiter, _) = waits(&rig);
    assert!(in_line.cancel());
    gate.open();
    assert_eq!(waiter.join().unwrap(), Ok(()));
    rig.end();
}

#[testkit::test]
fn wait_idle_ends_at_its_deadline_and_is_refused_on_a_worker() {
    let rig = Rig::new(1);
    let gate = hold(&rig.pool, 1);
    let late = rig.scheduled.wait_idle_timeout(Duration::ZERO);
    assert_eq!(late, Err(WaitError::TimedOut), "the pool is busy");
    let due = rig.scheduled.spawn_after(secs(0), || ()).unwrap();
    until(|| rig.pool.waiting() == 1);
    let (waiter, returned) = waits(&rig);
    rig.clock.advance(secs(3600));
    assert_eq!(waiter.join().unwrap(), Err(WaitError::TimedOut));
    assert!(returned.load(SeqCst) && !due.is_finished());
    gate.open();
    for waits in [
        |scheduled: &ScheduledPool| scheduled.wait_idle(),
        |scheduled: &ScheduledPool| block_on(scheduled.wait_idle_async()),
    ] {
        let scheduled = rig.scheduled.clone();
        let task = rig.pool.spawn(move || waits(&scheduled)).unwrap();
        assert_eq!(task.join().unwrap(), Err(WaitError::WouldDeadlock));
    }
    assert_eq!(rig.scheduled.wait_idle(), Ok(()));
    rig.end();
}

#[testkit::test]
fn wait_idle_async_is_woken_and_leaves_no_waiter_enrolled() {
    let rig = Rig::new(1);
    let gates = Gates::new(1);
    let due = rig
        .scheduled
        .spawn_after(secs(0), gates.task(|| ()))
        .unwrap();
    gates.reached(0);
    let waker = CountingWaker::new();
    let mut future = pin!(rig.scheduled.wait_idle_async());
    for _ in 0..2 {
        assert!(poll(future.as_mut(), &waker.waker()).is_pending());
    }
    let mut dropped = Box::pin(rig.scheduled.wait_idle_async());
    assert!(poll(dropped.as_mut(), Waker::noop()).is_pending());
    drop(dropped);
    gates.open(0);
    waker.wait_for_wakes(1);
    due.join().unwrap();
    assert_eq!(block_on(future), Ok(()));
    rig.end();
}

#[testkit::test]
fn a_release_that_removes_the_due_tasks_ends_wait_idle() {
    let rig = Rig::new(1);
    let gate = hold(&rig.pool, 1);
    let due = rig.scheduled.spawn_after(secs(0), || ()).unwrap();
    until(|| rig.pool.waiting() == 1);
    let (waiter, _) = waits(&rig);
    assert_eq!(rig.scheduled.release_now().len(), 1);
    assert!(due.is_finished());
    gate.open();
    assert_eq!(waiter.join().unwrap(), Ok(()));
    assert_eq!(rig.scheduled.wait_idle(), Ok(()), "a released pool is idle");
    rig.end();
}

#[testkit::test]
fn wait_idle_waits_for_a_due_task_that_finds_no_thread_in_an_idle_pool() {
    let (clock, refuses) = (ManualClock::new(), Arc::new(AtomicBool::new(true)));
    let asked = Arc::clone(&refuses);
    let pool = untimed(1, &clock).thread_gate(move || {
        if asked.load(SeqCst) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    });
    let rig = Rig::over(pool.build().unwrap(), clock);
    let due = rig.scheduled.spawn_after(secs(0), || 7).unwrap();
    until(|| rig.scheduled.stats().thread_failures == 1);
    assert_eq!(rig.pool.wait_idle(), Ok(()));
    let late = rig.scheduled.wait_idle_timeout(Duration::ZERO);
    assert_eq!(late, Err(WaitError::TimedOut));
    let mut future = pin!(rig.scheduled.wait_idle_async());
    assert!(poll(future.as_mut(), Waker::noop()).is_pending());
    refuses.store(false, SeqCst);
    until(|| rig.clock.sleepers() == 1);
    rig.clock.advance(SECOND); // The timer offers it again.
    assert_eq!(rig.scheduled.wait_idle(), Ok(()));
    assert_eq!(block_on(future), Ok(()));
    assert_eq!(due.join().unwrap(), 7);
    rig.end();
}

#[testkit::test]
fn a_manual_clock_advances_from_run_to_run() {
    const ROUNDS: u64 = 300;
    let clock = ManualClock::new();
    let pool = pool_core::Pool::builder().capacity(1).keep_alive(None);
    let pool = pool.clock(clock.clone()).build().unwrap();
    let scheduled = ScheduledPool::new(pool);
    let sweep = scheduled
        .spawn_with_fixed_delay(SECOND, SECOND, || ())
        .unwrap();
    for round in 1..=ROUNDS {
        assert_eq!(clock.advance_to_next(), SECOND);
        assert_eq!(sweep.runs(), round);
    }
    assert!(sweep.cancel());

    let policy = scheduled_pool::Retry::exponential(SECOND).max_attempts(9.try_into().unwrap());
    let (mut attempts, log) = (0, Journal::new());
    let writes = log.clone();
    let late = scheduled.spawn_retrying(&policy, move || {
        attempts += 1;
        writes.write(attempts);
        if attempts < 5 {
            Err(attempts)
        } else {
            Ok(attempts)
        }
    });
    let late = late.unwrap();
    until(|| log.entries().len() == 1 && clock.sleepers() == 1);
    for attempt in 2..5 {
        clock.advance_to_next();
        assert_eq!(log.entries().len(), attempt);
    }
    clock.advance(clock.next_due().unwrap() - clock.now());
    assert_eq!(late.join().unwrap().unwrap(), 5);
}

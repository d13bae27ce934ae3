//! Large captures do not overflow the stack of the thread that schedules, nor of the worker.
#![expect(clippy::large_stack_arrays, reason = "their captures are tested")]

use std::hint::black_box;
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use pool_core::{ManualClock, Pool};
use scheduled_pool::{Retry, ScheduledPool, Series};

/// As much as the closure of a plain thread can capture in an unoptimized build.
const LARGE: usize = 128 * 1024;
const STACK: usize = 2 * 1024 * 1024;

fn sum(bytes: &[u8; LARGE]) -> usize {
    black_box(bytes).iter().map(|&byte| usize::from(byte)).sum()
}

/// Calls `call` with a pool, on a thread with the usual stack.
fn check(call: impl FnOnce(&ScheduledPool) + Send + 'static) {
    let pool = Pool::builder().capacity(1).stack_size(STACK);
    let pool = pool.clock(ManualClock::new()).build().unwrap();
    let pool = ScheduledPool::new(pool);
    let called = thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || call(&pool));
    called.unwrap().join().unwrap();
}

#[testkit::test]
fn tasks_with_large_captures_are_scheduled_and_run_in_two_mebibytes_of_stack() {
    check(|pool| {
        let bytes = [7; LARGE];
        let task = pool.spawn_after(Duration::ZERO, move || sum(&bytes));
        let task = task.unwrap_or_else(|_| panic!("it was refused"));
        assert_eq!(task.join().unwrap(), 7 * LARGE);
    });
    check(|pool| {
        let bytes = [7; LARGE];
        let series = Series::with_fixed_delay(Duration::MAX);
        let task = pool.spawn_series_until(Duration::ZERO, &series, move || {
            assert_eq!(sum(&bytes), 7 * LARGE);
            ControlFlow::Break(())
        });
        let task = task.unwrap_or_else(|_| panic!("it was refused"));
        task.join().unwrap();
    });
    check(|pool| {
        let bytes = [7; LARGE];
        let task = move || ControlFlow::Break(sum(&bytes));
        let task = pool.spawn_self_paced(Duration::ZERO, task);
        let task = task.unwrap_or_else(|_| panic!("it was refused"));
        assert_eq!(task.join().unwrap(), 7 * LARGE);
    });
    check(|pool| {
        let bytes = [7; LARGE];
        let policy = Retry::exponential(Duration::from_secs(1));
        let task = pool.spawn_retrying(&policy, move || Ok::<_, ()>(sum(&bytes)));
        let task = task.unwrap_or_else(|_| panic!("it was refused"));
        assert_eq!(task.join().unwrap(), Ok(7 * LARGE));
    });
}

#[testkit::test]
fn a_refused_task_with_large_captures_is_returned() {
    check(|pool| {
        let bytes = [7_u8; 20 * 1024];
        pool.release();
        let refused = pool.spawn_after(Duration::ZERO, move || bytes[1]);
        let task = refused.unwrap_err().into_task();
        assert_eq!(task(), 7);
    });
}

//! Retries of failed tasks.

use std::num::NonZeroU32;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use pool_core::{CancelToken, Clock, JoinError};
use scheduled_pool::{Retry, ScheduleError, SeriesHandle, TaskBuilderExt, UnstartedTask};
use testkit::Gate;

use crate::support::{BUT_A_TICK, Rig, SECOND, TICK, secs, until};

/// Delays of one second, then two, and so on.
fn steady() -> Retry {
    Retry::exponential(SECOND).jitter(false)
}

fn attempts(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

/// Returns the number of the attempt, as an error before the attempt `last`.
fn succeeds_at(last: u32) -> impl FnMut() -> Result<u32, u32> + Send + 'static {
    let mut attempt = 0;
    move || {
        attempt += 1;
        if attempt == last {
            Ok(attempt)
        } else {
            Err(attempt)
        }
    }
}

/// Waits until the task has failed this many times and is pending again.
fn rests_after(runs: u64, series: &SeriesHandle<Result<u32, u32>>) {
    until(|| series.runs() == runs && series.next_due().is_some());
}

#[testkit::test]
fn a_failed_task_is_retried_after_doubling_delays_until_it_succeeds() {
    let rig = Rig::new(1);
    let policy = steady().max_delay(secs(3));
    let series = rig
        .scheduled
        .spawn_retrying(&policy, succeeds_at(5))
        .unwrap();
    for (failed, delay) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
        rests_after(failed, &series);
        assert_eq!(series.next_due(), Some(rig.clock.now() + secs(delay)));
        assert_eq!(
            rig.pool.stats().in_flight,
            0,
            "it holds no worker meanwhile"
        );
        rig.clock.advance(secs(delay));
    }
    assert_eq!(series.join().unwrap(), Ok(5));
    rig.end();
    assert_eq!(rig.scheduled.stats().runs, 5);
}

#[testkit::test]
fn the_handle_returns_the_last_error_when_retries_are_exhausted() {
    let rig = Rig::new(1);
    let policy = steady().max_attempts(attempts(2));
    let series = rig
        .scheduled
        .spawn_retrying(&policy, succeeds_at(3))
        .unwrap();
    rests_after(1, &series);
    rig.clock.advance(BUT_A_TICK);
    assert_eq!(series.runs(), 1);
    rig.clock.advance(TICK);
    assert_eq!(series.join().unwrap(), Err(2));

    let once = steady().max_attempts(attempts(1));
    let series = rig.scheduled.spawn_retrying(&once, succeeds_at(2)).unwrap();
    assert_eq!(series.join().unwrap(), Err(1), "no attempt but the first");
    rig.end();
    assert_eq!(rig.scheduled.stats().ended, 2);
}

#[testkit::test]
fn jitter_keeps_each_delay_between_half_and_the_full_value() {
    let rig = Rig::new(1);
    let policy = Retry::exponential(secs(2));
    let series = rig
        .scheduled
        .spawn_retrying(&policy, succeeds_at(2))
        .unwrap();
    rests_after(1, &series);
    let due = series.next_due().unwrap() - rig.clock.now();
    assert!((SECOND..=secs(2)).contains(&due), "{due:?}");
    rig.clock.advance(due);
    assert_eq!(series.join().unwrap(), Ok(2));
    rig.end();
}

#[testkit::test]
fn a_cancel_between_two_attempts_drops_the_task_at_once() {
    let rig = Rig::new(1);
    let captured = Arc::new(());
    let (guard, mut task) = (Arc::clone(&captured), succeeds_at(9));
    let task = move || {
        let _ = &guard;
        task()
    };
    let series = rig.scheduled.spawn_retrying(&steady(), task).unwrap();
    rests_after(1, &series);
    assert!(series.cancel());
    assert_eq!(Arc::strong_count(&captured), 1);
    assert!(matches!(series.join(), Err(JoinError::Cancelled)));
    rig.end();
}

#[testkit::test]
fn an_attempt_during_which_the_task_is_cancelled_is_the_last() {
    let rig = Rig::new(2);
    let (gate, token) = (Gate::new(), CancelToken::new());
    let fails = || {
        let gate = gate.clone();
        move || {
            gate.wait();
            Err::<(), _>("it failed")
        }
    };
    let cancelled = rig.scheduled.spawn_retrying(&steady(), fails()).unwrap();
    let task = rig.scheduled.task().name("fetch").cancelled_by(&token);
    let by_token = task.spawn_retrying(&steady(), fails()).unwrap();
    gate.wait_for_arrivals(2);
    assert!(cancelled.cancel() && token.cancel());
    gate.open();
    assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
    assert!(matches!(by_token.join(), Err(JoinError::Cancelled)));
    rig.end();
    assert_eq!(rig.scheduled.stats().runs, 2);
}

#[testkit::test]
fn a_panic_of_an_attempt_ends_the_retries() {
    let rig = Rig::new(1);
    let task = || -> Result<(), ()> { panic!("its own affair") };
    let series = rig.scheduled.spawn_retrying(&steady(), task).unwrap();
    assert!(matches!(series.join(), Err(JoinError::Panicked(_))));
    rig.end();
}

#[testkit::test]
fn a_release_ends_retries_and_release_now_returns_the_task_with_its_failure_count() {
    let rig = Rig::new(1);
    let series = rig
        .scheduled
        .spawn_retrying(&steady(), succeeds_at(9))
        .unwrap();
    rests_after(1, &series);
    rig.end();
    assert!(matches!(series.join(), Err(JoinError::Released)));

    let rig = Rig::new(1);
    let policy = steady().max_attempts(attempts(3));
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    let task = move || Err::<u32, _>(count.fetch_add(1, SeqCst));
    let series = rig.scheduled.spawn_retrying(&policy, task).unwrap();
    rests_after(1, &series);
    let unstarted = rig.scheduled.release_now().into_iter().next().unwrap();
    let UnstartedTask::SelfPaced(mut task) = unstarted.into_task() else {
        panic!("it names its delays")
    };
    assert_eq!((task(), task()), (Continue(secs(2)), Break(())));
    assert_eq!(ran.load(SeqCst), 3);
    assert!(matches!(series.join(), Err(JoinError::Released)));
}

#[testkit::test]
fn a_refused_retrying_task_is_returned_unrun() {
    let rig = Rig::new(1);
    rig.end();
    let refused = rig
        .scheduled
        .spawn_retrying(&steady(), succeeds_at(1))
        .unwrap_err();
    assert!(matches!(&refused, ScheduleError::Released(_)));
    assert_eq!(refused.into_task()(), Ok(1));
}

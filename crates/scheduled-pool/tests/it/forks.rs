//! Scheduled pools in a forked child: no call waits for threads that do not exist there.
#![expect(
    clippy::needless_pass_by_value,
    reason = "each result is checked at its call"
)]

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Instant;

use pool_core::{JoinError, Pool, WaitError};
use scheduled_pool::{
    ResetError, Retry, ScheduleError, ScheduledHandle, ScheduledPool, Series, SeriesHandle,
    TaskBuilderExt,
};
use testkit::{ForkCase, Gate, block_on, check_in_forks, fork_cases, in_child, in_fork, ready};

use crate::support::{SECOND, secs};

const STAYED: Result<(), WaitError> = Err(WaitError::Forked);

/// A wait that has begun before the fork.
type Started = Pin<Box<dyn Future<Output = Result<(), WaitError>>>>;

/// State that a child inherits.
struct Inherited {
    /// The worker is busy, and the timer thread sleeps.
    scheduled: ScheduledPool,
    later: Instant,
    once: Option<ScheduledHandle<()>>,
    series: Option<SeriesHandle>,
    idle: Started,
    released: Started,
}

fn refused<V, F>(answer: Result<V, ScheduleError<F>>) -> bool {
    matches!(answer, Err(ScheduleError::Forked(_)))
}

fn lost<V>(answer: Result<V, JoinError>) -> bool {
    matches!(answer, Err(JoinError::Forked))
}

fn pending(started: &mut Started) -> bool {
    started
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}

fn series() -> Series {
    Series::with_fixed_delay(SECOND)
}

fn retry() -> Retry {
    Retry::exponential(SECOND)
}

const CASES: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "ScheduledPool::spawn_after" => refused(it.scheduled.spawn_after(SECOND, || ()));
    "TaskBuilderExt::spawn_after" => refused(it.scheduled.task().name("n").spawn_after(SECOND, || ()));
    "ScheduledPool::spawn_at" => refused(it.scheduled.spawn_at(it.later, || ()));
    "TaskBuilderExt::spawn_at" => refused(it.scheduled.task().name("n").spawn_at(it.later, || ()));
    "ScheduledPool::spawn_at_fixed_rate" => refused(it.scheduled.spawn_at_fixed_rate(SECOND, SECOND, || ()));
    "TaskBuilderExt::spawn_at_fixed_rate" => refused(it.scheduled.task().name("n").spawn_at_fixed_rate(SECOND, SECOND, || ()));
    "ScheduledPool::spawn_with_fixed_delay" => refused(it.scheduled.spawn_with_fixed_delay(SECOND, SECOND, || ()));
    "TaskBuilderExt::spawn_with_fixed_delay" => refused(it.scheduled.task().name("n").spawn_with_fixed_delay(SECOND, SECOND, || ()));
    "ScheduledPool::spawn_series" => refused(it.scheduled.spawn_series(SECOND, &series(), || ()));
    "TaskBuilderExt::spawn_series" => refused(it.scheduled.task().name("n").spawn_series(SECOND, &series(), || ()));
    "ScheduledPool::spawn_series_until" => refused(it.scheduled.spawn_series_until(SECOND, &series(), || ControlFlow::Continue(())));
    "TaskBuilderExt::spawn_series_until" => refused(it.scheduled.task().name("n").spawn_series_until(SECOND, &series(), || ControlFlow::Continue(())));
    "ScheduledPool::spawn_self_paced" => refused(it.scheduled.spawn_self_paced(SECOND, || ControlFlow::<(), _>::Continue(SECOND)));
    "TaskBuilderExt::spawn_self_paced" => refused(it.scheduled.task().name("n").spawn_self_paced(SECOND, || ControlFlow::<(), _>::Continue(SECOND)));
    "ScheduledPool::spawn_retrying" => refused(it.scheduled.spawn_retrying(&retry(), || Ok::<(), u8>(())));
    "TaskBuilderExt::spawn_retrying" => refused(it.scheduled.task().name("n").spawn_retrying(&retry(), || Ok::<(), u8>(())));
    "ScheduledHandle::join" => lost(it.once.take().expect("it is there").join());
    "ScheduledHandle::join_timeout" => it.once.take().expect("it is there").join_timeout(SECOND).is_ok_and(lost);
    "ScheduledHandle::join_timeout" => it.once.take().expect("it is there").join_timeout(it.later).is_ok_and(lost);
    "ScheduledHandle::try_join" => it.once.take().expect("it is there").try_join().is_ok_and(lost);
    "ScheduledHandle::poll" => lost(ready(it.once.as_mut().expect("it is there")));
    "ScheduledHandle::drop" => { drop(it.once.take()); true };
    "ScheduledHandle::cancel" => !it.once.as_ref().expect("it is there").cancel() && it.once.as_ref().expect("it is there").is_finished();
    "ScheduledHandle::reset_after" => it.once.as_ref().expect("it is there").reset_after(SECOND) == Err(ResetError::Forked);
    "ScheduledHandle::reset_at" => it.once.as_ref().expect("it is there").reset_at(it.later) == Err(ResetError::Forked);
    "ScheduledHandle::join" => lost(it.series.take().expect("it is there").join());
    "ScheduledHandle::join_timeout" => it.series.take().expect("it is there").join_timeout(SECOND).is_ok_and(lost);
    "ScheduledHandle::join_timeout" => it.series.take().expect("it is there").join_timeout(it.later).is_ok_and(lost);
    "ScheduledHandle::try_join" => it.series.take().expect("it is there").try_join().is_ok_and(lost);
    "ScheduledHandle::poll" => lost(ready(it.series.as_mut().expect("it is there")));
    "ScheduledHandle::drop" => { drop(it.once.take()); true };
    "ScheduledHandle::cancel" => !it.series.as_ref().expect("it is there").cancel() && it.series.as_ref().expect("it is there").is_finished();
    "ScheduledHandle::reset_after" => it.series.as_ref().expect("it is there").reset_after(SECOND) == Err(ResetError::Forked);
    "ScheduledHandle::reset_at" => it.series.as_ref().expect("it is there").reset_at(it.later) == Err(ResetError::Forked);
    "ScheduledPool::wait_idle" => it.scheduled.wait_idle() == STAYED;
    "ScheduledPool::wait_idle_timeout" => it.scheduled.wait_idle_timeout(SECOND) == STAYED;
    "ScheduledPool::wait_idle_timeout" => it.scheduled.wait_idle_timeout(it.later) == STAYED;
    "ScheduledPool::wait_idle_async" => ready(it.scheduled.wait_idle_async()) == STAYED;
    "ScheduledPool::wait_idle_async" => ready(&mut it.idle) == STAYED;
    "ScheduledPool::wait_released" => it.scheduled.wait_released() == STAYED;
    "ScheduledPool::wait_released_timeout" => it.scheduled.wait_released_timeout(SECOND) == STAYED;
    "ScheduledPool::wait_released_timeout" => it.scheduled.wait_released_timeout(it.later) == STAYED;
    "ScheduledPool::wait_released_async" => ready(it.scheduled.wait_released_async()) == STAYED;
    "ScheduledPool::wait_released_async" => ready(&mut it.released) == STAYED;
    // Nothing is left to release.
    "ScheduledPool::release" => !it.scheduled.release();
    "ScheduledPool::release_now" => it.scheduled.release_now().is_empty();
    "ScheduledPool::release_async" => ready(it.scheduled.release_async()) == STAYED;
    "ScheduledPool::release_timeout_async" => ready(it.scheduled.release_timeout_async(SECOND)) == STAYED;
};

#[test]
fn no_call_on_a_scheduled_pool_waits_in_a_forked_child() {
    let ended = in_child(
        "forks::no_call_on_a_scheduled_pool_waits_in_a_forked_child",
        || {
            let pool = Pool::builder()
                .capacity(1)
                .keep_alive(None)
                .build()
                .unwrap();
            let scheduled = ScheduledPool::new(pool);
            let gate = Gate::new();
            let held = gate.clone();
            scheduled.pool().submit(move || held.wait()).unwrap();
            gate.wait_for_arrivals(1);
            let mut inherited = Inherited {
                later: Instant::now() + SECOND,
                once: Some(scheduled.spawn_after(secs(3600), || ()).unwrap()),
                series: Some(
                    scheduled
                        .spawn_series(secs(3600), &series(), || ())
                        .unwrap(),
                ),
                idle: Box::pin(scheduled.wait_idle_async()),
                released: Box::pin(scheduled.wait_released_async()),
                scheduled,
            };
            assert!(pending(&mut inherited.idle));
            assert!(pending(&mut inherited.released));
            check_in_forks(&mut inherited, CASES);
            gate.open();
            assert!(
                inherited.once.take().unwrap().cancel(),
                "the parent's goes on"
            );
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

/// Schedules a task, and waits for it with a limit, which needs an alarm.
fn runs_in_time() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let scheduled = ScheduledPool::new(pool);
    let later = scheduled.spawn_after(secs(3600), || ()).unwrap();
    let soon = scheduled.spawn_after(SECOND / 200, || 7).unwrap();
    let begin = Instant::now();
    let limited = scheduled.release_timeout_async(SECOND / 100);
    assert_eq!(block_on(limited), Err(WaitError::TimedOut));
    assert!(begin.elapsed() >= SECOND / 100);
    assert_eq!(soon.join().unwrap(), 7);
    assert!(later.cancel());
}

#[test]
fn a_pool_made_in_a_forked_child_has_timers_although_its_parents_had_some() {
    let test = "forks::a_pool_made_in_a_forked_child_has_timers_although_its_parents_had_some";
    let ended = in_child(test, || {
        runs_in_time();
        assert_eq!(in_fork(runs_in_time), Ok(()));
        runs_in_time();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn the_timer_thread_does_not_inherit_from_the_first_caller() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let builder = ScheduledPool::builder(pool).thread_name("own-timer");
    let scheduled = builder.build().unwrap();
    let later = testkit::on_special_thread(|| scheduled.spawn_after(secs(3600), || ()));
    testkit::wait_for_service_threads("own-timer");
    assert!(later.unwrap().cancel());
}

//! Series that end themselves or set their own pace.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use pool_core::{Clock, JoinError};
use scheduled_pool::{OnPanic, ScheduleError};

use crate::support::{Rig, SECOND, every_second, hold, secs, until};

#[testkit::test]
fn a_series_ends_with_the_run_that_breaks_it() {
    let rig = Rig::new(1);
    let (captured, mut runs) = (Arc::new(()), 0);
    let guard = Arc::clone(&captured);
    let series = rig
        .scheduled
        .spawn_series_until(SECOND, &every_second(), move || {
            let _ = &guard;
            runs += 1;
            if runs == 3 { Break(()) } else { Continue(()) }
        })
        .unwrap();
    rig.walk(2, || series.runs());
    assert!(!series.is_finished());
    rig.walk(1, || series.runs());
    series.join().unwrap();
    assert_eq!(Arc::strong_count(&captured), 1);
    assert_eq!(
        (rig.scheduled.stats().ended, rig.scheduled.stats().runs),
        (1, 3)
    );
    rig.clock.advance(secs(100));
    rig.end();
    assert_eq!(rig.scheduled.stats().runs, 3);
}

#[testkit::test]
fn a_series_that_does_not_break_runs_to_its_limit_and_outlives_a_panic() {
    let rig = Rig::new(1);
    let mut runs = 0;
    let three = every_second()
        .max_runs(std::num::NonZeroU64::new(3).unwrap())
        .on_panic(OnPanic::Continue);
    let series = rig
        .scheduled
        .spawn_series_until(SECOND, &three, move || {
            runs += 1;
            assert!(runs != 2, "its own affair");
            Continue(())
        })
        .unwrap();
    rig.walk(3, || series.runs());
    series.join().unwrap();
    assert_eq!(rig.scheduled.stats().panicked, 1);
    rig.end();
}

#[testkit::test]
fn a_self_paced_series_runs_after_the_delays_it_returns_and_ends_with_a_value() {
    let rig = Rig::new(1);
    let stamps = rig.stamps();
    let (log, mut delay) = (stamps.clone(), SECOND);
    let series = rig
        .scheduled
        .spawn_self_paced(secs(2), move || {
            log.stamp();
            delay *= 2;
            if delay > secs(8) {
                Break("done")
            } else {
                Continue(delay)
            }
        })
        .unwrap();
    assert_eq!(series.next_due(), Some(rig.start + secs(2)));
    for (run, wait) in [2, 2, 4, 8].into_iter().enumerate() {
        until(|| series.next_due() == Some(rig.clock.now() + secs(wait)));
        rig.clock.advance(secs(wait));
        until(|| series.runs() > run as u64);
    }
    assert_eq!(series.join().unwrap(), "done");
    assert_eq!(stamps.seconds(), [2, 4, 8, 16]);
    rig.end();
}

#[testkit::test]
fn a_delay_of_zero_queues_the_next_run_behind_due_schedules() {
    let rig = Rig::new(1);
    let order = crate::support::Journal::new();
    let (log, mut runs) = (order.clone(), 0);
    let held = hold(&rig.pool, 1);
    let paced = rig
        .scheduled
        .spawn_self_paced(Duration::ZERO, move || {
            runs += 1;
            log.write(runs);
            if runs == 2 {
                Break(())
            } else {
                Continue(Duration::ZERO)
            }
        })
        .unwrap();
    until(|| rig.pool.waiting() == 1);
    let other = rig
        .scheduled
        .spawn_after(Duration::ZERO, order.writer(100))
        .unwrap();
    until(|| rig.pool.waiting() == 2);
    held.open();
    paced.join().unwrap();
    other.join().unwrap();
    assert_eq!(order.entries(), [1, 100, 2]);
    rig.end();
}

#[testkit::test]
fn a_self_paced_series_with_an_endless_delay_waits_for_a_cancel_or_a_release() {
    let rig = Rig::new(1);
    let never = || Continue::<(), _>(Duration::MAX);
    let cancelled = rig
        .scheduled
        .spawn_self_paced(Duration::ZERO, never)
        .unwrap();
    let released = rig
        .scheduled
        .spawn_self_paced(Duration::ZERO, never)
        .unwrap();
    until(|| cancelled.runs() == 1 && released.runs() == 1);
    assert_eq!(cancelled.next_due(), None);
    assert!(cancelled.cancel());
    assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
    rig.end();
    assert!(matches!(released.join(), Err(JoinError::Released)));
}

#[testkit::test]
fn a_panic_ends_a_self_paced_series() {
    let rig = Rig::new(1);
    let mut runs = 0;
    let series = rig
        .scheduled
        .spawn_self_paced(Duration::ZERO, move || -> ControlFlow<u32, Duration> {
            runs += 1;
            assert!(runs < 2, "its own affair");
            Continue(Duration::ZERO)
        })
        .unwrap();
    assert!(matches!(series.join(), Err(JoinError::Panicked(_))));
    rig.end();
}

#[testkit::test]
fn every_kind_of_rejected_series_is_returned_unrun() {
    let rig = Rig::new(1);
    let until = |break_at: u32| {
        move || {
            if break_at == 7 {
                Break(())
            } else {
                Continue(())
            }
        }
    };
    let zero = scheduled_pool::Series::at_fixed_rate(Duration::ZERO);
    let refused = rig.scheduled.spawn_series_until(SECOND, &zero, until(7));
    let Err(ScheduleError::ZeroPeriod(task)) = refused else {
        panic!("a period of 0")
    };
    assert_eq!(task(), Break(()));
    rig.end();
    let refused = rig
        .scheduled
        .spawn_series_until(SECOND, &every_second(), until(7));
    assert_eq!(refused.unwrap_err().into_task()(), Break(()));
    let refused = rig
        .scheduled
        .spawn_self_paced(SECOND, || Break::<_, Duration>(7));
    assert_eq!(refused.unwrap_err().into_task()(), Break(7));
}

//! Series: due times, runs and ends.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pool_core::JoinError;
use scheduled_pool::{OnPanic, ScheduleError, Series};
use testkit::DropCounter;

use crate::support::{BUT_A_TICK, Gates, Rig, SECOND, TICK, every_second, hold, secs, until};

#[testkit::test]
fn a_fixed_rate_runs_after_its_first_delay_and_then_once_a_period() {
    let rig = Rig::new(1);
    let stamps = rig.stamps();
    let task = stamps.clone();
    let series = rig
        .scheduled
        .spawn_at_fixed_rate(secs(3), SECOND, move || task.stamp())
        .unwrap();
    assert_eq!(series.next_due(), Some(rig.start + secs(3)));
    rig.clock.advance(secs(2));
    rig.walk(5, || series.runs());
    assert_eq!(stamps.seconds(), [3, 4, 5, 6, 7]);
    assert_eq!(series.next_due(), Some(rig.start + secs(8)));
    assert_eq!((series.runs(), series.missed()), (5, 0));
    series.cancel();
    rig.end();
}

#[testkit::test]
fn a_late_run_does_not_shift_later_ticks() {
    let rig = Rig::new(1);
    let series = rig
        .scheduled
        .spawn_at_fixed_rate(SECOND, SECOND, || ())
        .unwrap();
    let half = Duration::from_millis(500);
    for tick in 1..20 {
        // Each run begins and ends half a second after its tick.
        rig.clock
            .advance(if tick == 1 { SECOND + half } else { SECOND });
        until(|| series.runs() == tick);
        assert_eq!(series.next_due(), Some(rig.start + secs(tick + 1)));
    }
    assert_eq!(series.missed(), 0);
    rig.end();
}

#[testkit::test]
fn a_fixed_delay_counts_from_the_end_of_a_run() {
    let rig = Rig::new(1);
    let (stamps, gates) = (rig.stamps(), Gates::new(2));
    let task = stamps.clone();
    let series = rig
        .scheduled
        .spawn_with_fixed_delay(SECOND, secs(2), gates.task(move || task.stamp()))
        .unwrap();
    rig.clock.advance(secs(1));
    gates.reached(0);
    rig.clock.advance(secs(5)); // The first run takes five seconds,
    gates.open(0);
    until(|| series.runs() == 1);
    assert_eq!(series.next_due(), Some(rig.start + secs(8)));
    rig.clock.advance(secs(2));
    gates.reached(1);
    rig.clock.advance(secs(1)); // the second one second.
    gates.open(1);
    until(|| series.runs() == 2);
    rig.clock.advance(SECOND + BUT_A_TICK);
    assert_eq!(series.next_due(), Some(rig.start + secs(11)));
    rig.clock.advance(TICK);
    until(|| series.runs() == 3);
    assert_eq!((stamps.seconds(), series.missed()), (vec![1, 8, 11], 0));
    rig.end();
}

#[testkit::test]
fn a_series_never_overlaps_with_itself() {
    for series in [
        every_second(),
        every_second().missed(scheduled_pool::Missed::Burst),
        every_second().missed(scheduled_pool::Missed::Delay),
        Series::with_fixed_delay(SECOND),
    ] {
        let rig = Rig::new(4);
        let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (task_inside, task_most) = (Arc::clone(&inside), Arc::clone(&most));
        let handle = rig
            .scheduled
            .spawn_series(Duration::ZERO, &series, move || {
                let now = task_inside.fetch_add(1, SeqCst) + 1;
                task_most.fetch_max(now, SeqCst);
                std::thread::yield_now();
                task_inside.fetch_sub(1, SeqCst);
            })
            .unwrap();
        while handle.runs() < 20 {
            rig.clock.advance(secs(3));
            std::thread::yield_now();
        }
        handle.cancel();
        rig.end();
        assert_eq!(most.load(SeqCst), 1);
    }
}

#[testkit::test]
fn a_series_holds_at_most_one_place_in_the_wait_queue() {
    let rig = Rig::new(1);
    let gate = hold(&rig.pool, 1);
    let series = rig
        .scheduled
        .spawn_at_fixed_rate(SECOND, SECOND, || ())
        .unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 1);
    rig.clock.advance(secs(100));
    // The timer processes a later schedule, so it has handled the ticks of the series.
    let other = rig.scheduled.spawn_after(Duration::ZERO, || ()).unwrap();
    until(|| rig.pool.waiting() == 2);
    gate.open();
    other.join().unwrap();
    until(|| series.runs() >= 1);
    assert_eq!(
        series.missed(),
        99,
        "the ticks at 2 to 100; the one at 101 is on time"
    );
    rig.end();
}

#[testkit::test]
fn a_panic_ends_a_series_and_is_returned_by_its_handle() {
    let rig = Rig::new(1);
    let drops = DropCounter::new();
    let token = drops.token();
    let mut runs = 0;
    let series = rig
        .scheduled
        .spawn_at_fixed_rate(SECOND, SECOND, move || {
            let _ = &token;
            runs += 1;
            assert!(runs < 3, "the third run");
        })
        .unwrap();
    rig.walk(2, || series.runs());
    rig.clock.advance(SECOND);
    until(|| series.is_finished());
    assert_eq!((drops.alive(), series.runs()), (0, 3));
    rig.clock.advance(secs(100));
    let Err(JoinError::Panicked(panicked)) = series.join() else {
        panic!("it panicked");
    };
    assert_eq!(panicked.message(), Some("the third run"));
    let stats = rig.scheduled.stats();
    assert_eq!((stats.runs, stats.panicked, stats.unended), (3, 1, 0));
    rig.end();
}

#[testkit::test]
fn a_series_configured_to_continue_survives_panics() {
    let rig = Rig::new(1);
    let series = every_second()
        .on_panic(OnPanic::Continue)
        .max_runs(NonZeroU64::new(6).unwrap());
    let mut runs = 0;
    let handle = rig
        .scheduled
        .spawn_series(SECOND, &series, move || {
            runs += 1;
            assert!(runs % 2 == 1, "every second run");
        })
        .unwrap();
    rig.walk(6, || handle.runs());
    handle.join().unwrap();
    assert_eq!(rig.scheduled.stats().panicked, 3);
    assert_eq!(rig.pool.stats().panicked, 3);
    rig.end();
}

#[testkit::test]
fn a_series_ends_after_its_maximum_number_of_runs() {
    let rig = Rig::new(1);
    let (drops, most) = (DropCounter::new(), NonZeroU64::new(2).unwrap());
    let token = drops.token();
    let series = every_second().max_runs(most);
    let handle = rig
        .scheduled
        .spawn_series(SECOND, &series, move || _ = &token)
        .unwrap();
    rig.walk(2, || handle.runs());
    until(|| handle.is_finished());
    assert_eq!((drops.alive(), handle.next_due()), (0, None));
    handle.join().unwrap();
    rig.clock.advance(secs(10));
    rig.end();
    assert_eq!(rig.pool.stats().submitted, 2);
}

#[testkit::test]
fn a_zero_period_is_refused_and_the_closure_returned() {
    let rig = Rig::new(1);
    let drops = DropCounter::new();
    let token = drops.token();
    let refused = rig
        .scheduled
        .spawn_at_fixed_rate(SECOND, Duration::ZERO, move || _ = &token)
        .unwrap_err();
    assert!(matches!(refused, ScheduleError::ZeroPeriod(_)));
    assert_eq!(format!("{refused:?}"), "ZeroPeriod(..)");
    assert_eq!(
        refused.to_string(),
        "the period of a series must be longer than zero"
    );
    let task = refused.into_task();
    assert_eq!(drops.alive(), 1);
    let refused = rig
        .scheduled
        .spawn_with_fixed_delay(SECOND, Duration::ZERO, task)
        .unwrap_err();
    assert!(matches!(refused, ScheduleError::ZeroPeriod(_)));
    drop(refused);
    assert_eq!((drops.alive(), rig.scheduled.stats().scheduled), (0, 0));
    rig.end();
}

#[testkit::test]
fn a_series_keeps_its_state_from_run_to_run() {
    let rig = Rig::new(3);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let mut count = 0;
    let series = rig
        .scheduled
        .spawn_with_fixed_delay(SECOND, SECOND, move || {
            count += 1;
            log.lock().unwrap().push(count);
        })
        .unwrap();
    rig.walk(5, || series.runs());
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4, 5]);
    rig.end();
}

#[testkit::test]
fn many_series_share_one_timer_at_different_rates() {
    let rig = Rig::new(2);
    let handles: Vec<_> = (1..=20)
        .map(|period| {
            rig.scheduled
                .spawn_at_fixed_rate(secs(period), secs(period), || ())
                .unwrap()
        })
        .collect();
    for second in 1..=60 {
        rig.clock.advance(SECOND);
        for (handle, period) in handles.iter().zip(1..) {
            until(|| handle.runs() == second / period);
        }
    }
    assert!(handles.iter().all(|handle| handle.missed() == 0));
    rig.end();
}

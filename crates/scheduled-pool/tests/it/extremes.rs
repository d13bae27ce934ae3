//! Extreme times and durations.

use std::time::Duration;

use pool_core::JoinError;
use scheduled_pool::{Missed, Series};

use crate::support::{Rig, SECOND, TICK, secs, until};

#[testkit::test]
fn an_inexpressible_delay_is_never_due_and_starves_no_schedule() {
    let rig = Rig::new(1);
    let never: Vec<_> = (0..3)
        .map(|_| rig.scheduled.spawn_after(Duration::MAX, || ()).unwrap())
        .collect();
    let soon = rig.scheduled.spawn_after(TICK, || 1).unwrap();
    assert!(never.iter().all(|handle| handle.next_due().is_none()));
    rig.clock.advance(TICK);
    assert_eq!(soon.join().unwrap(), 1);
    rig.clock.advance(secs(100 * 365 * 86_400));
    let now = rig.scheduled.spawn_after(Duration::ZERO, || 2).unwrap();
    assert_eq!(now.join().unwrap(), 2);
    assert!(never.iter().all(|handle| !handle.is_finished()));
    assert!(never[0].cancel());
    rig.end(); // The end waits for none of them.
    for (index, handle) in never.into_iter().enumerate() {
        match handle.join() {
            Err(JoinError::Cancelled) => assert_eq!(index, 0),
            Err(JoinError::Released) => assert_ne!(index, 0),
            other => panic!("{other:?}"),
        }
    }
}

/// Java's scheduler had this bug: an overflow made a comparison with the head of its queue wrong.
#[testkit::test]
fn endless_delays_behind_an_expired_head_keep_the_order() {
    for late in [Duration::ZERO, secs(10)] {
        for kind in 0..4 {
            let rig = Rig::new(1);
            let gate = crate::support::hold(&rig.pool, 1);
            let head = rig.scheduled.spawn_after(Duration::ZERO, || ()).unwrap();
            rig.clock.advance(late);
            let endless = Duration::MAX;
            match kind {
                0 => drop(rig.scheduled.spawn_after(endless, || ())),
                1 => drop(rig.scheduled.spawn_at_fixed_rate(endless, SECOND, || ())),
                2 => drop(rig.scheduled.spawn_at_fixed_rate(SECOND, endless, || ())),
                _ => drop(
                    rig.scheduled
                        .spawn_with_fixed_delay(endless, endless, || ()),
                ),
            }
            let tail = rig.scheduled.spawn_after(Duration::ZERO, || ()).unwrap();
            gate.open();
            head.join().unwrap();
            tail.join().unwrap();
            assert_eq!(rig.scheduled.stats().unended, 1, "kind {kind}");
            rig.end();
        }
    }
}

#[testkit::test]
fn an_endless_fixed_delay_does_not_starve_a_task() {
    let rig = Rig::new(1);
    let series = rig
        .scheduled
        .spawn_with_fixed_delay(Duration::ZERO, Duration::MAX, || ())
        .unwrap();
    until(|| series.runs() == 1);
    let task = rig.scheduled.spawn_after(SECOND, || 1).unwrap();
    rig.clock.advance(SECOND);
    assert_eq!(task.join().unwrap(), 1);
    assert_eq!((series.runs(), series.next_due()), (1, None));
    rig.end();
    assert!(matches!(series.join(), Err(JoinError::Released)));
}

#[testkit::test]
fn the_shortest_period_survives_the_longest_clock_jumps() {
    for missed in [Missed::Skip, Missed::Delay] {
        let rig = Rig::new(1);
        let series = Series::at_fixed_rate(TICK).missed(missed);
        let series = rig.scheduled.spawn_series(TICK, &series, || ()).unwrap();
        for years in [1, 10, 100] {
            let before = series.runs();
            rig.clock.advance(secs(years * 365 * 86_400));
            until(|| series.runs() > before);
        }
        series.cancel();
        rig.end();
    }
}

#[testkit::test]
fn delays_near_the_last_expressible_time_do_not_panic_or_fire_early() {
    let rig = Rig::new(1);
    let far = Duration::from_nanos(u64::MAX);
    for delay in [
        Duration::from_nanos(u64::MAX - 1),
        far,
        far + TICK,
        Duration::from_secs(u64::MAX),
    ] {
        let handle = rig.scheduled.spawn_after(delay, || ()).unwrap();
        rig.clock.advance(secs(1));
        assert!(!handle.is_finished());
        assert!(handle.cancel());
    }
    rig.end();
}

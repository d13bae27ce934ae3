//! Policies for missed ticks.

use scheduled_pool::{Missed, SeriesHandle};

use crate::support::{Gates, Rig, SECOND, Stamps, every_second, secs, until};

/// A series with a period of a second, whose first run begins at 1 and ends at 5.
fn slow_first(missed: Missed) -> (Rig, SeriesHandle, Stamps) {
    let rig = Rig::new(1);
    let (stamps, gates) = (rig.stamps(), Gates::new(1));
    let task = stamps.clone();
    let series = rig
        .scheduled
        .spawn_series(
            SECOND,
            &every_second().missed(missed),
            gates.task(move || task.stamp()),
        )
        .unwrap();
    rig.clock.advance(SECOND);
    gates.reached(0);
    rig.clock.advance(secs(4));
    gates.open(0);
    until(|| series.runs() >= 1);
    (rig, series, stamps)
}

#[testkit::test]
fn skip_drops_missed_ticks_and_continues_at_the_next() {
    let (rig, series, stamps) = slow_first(Missed::Skip);
    // The run ended at 5, so it missed the ticks at 2, 3 and 4, but not the tick at 5.
    until(|| series.runs() == 2);
    assert_eq!((series.missed(), stamps.seconds()), (3, vec![1, 5]));
    rig.walk(3, || series.runs());
    assert_eq!(stamps.seconds(), [1, 5, 6, 7, 8]);
    assert_eq!(series.missed(), 3);
    rig.end();
}

#[testkit::test]
fn burst_runs_every_missed_tick_at_once_and_then_keeps_the_ticks() {
    let (rig, series, stamps) = slow_first(Missed::Burst);
    until(|| series.runs() == 5);
    assert_eq!(stamps.seconds(), [1, 5, 5, 5, 5]); // Due at 2, 3, 4 and 5.
    assert_eq!(series.missed(), 3);
    rig.walk(2, || series.runs());
    assert_eq!(stamps.seconds(), [1, 5, 5, 5, 5, 6, 7]);
    rig.end();
}

#[testkit::test]
fn delay_runs_one_missed_tick_at_once_and_restarts_the_period() {
    let rig = Rig::new(1);
    let (stamps, gates) = (rig.stamps(), Gates::new(1));
    let (task, half) = (stamps.clone(), SECOND / 2);
    let delay = every_second().missed(Missed::Delay);
    let series = rig
        .scheduled
        .spawn_series(SECOND, &delay, gates.task(move || task.stamp()))
        .unwrap();
    rig.clock.advance(SECOND);
    gates.reached(0);
    rig.clock.advance(secs(3) + half);
    gates.open(0);
    until(|| series.runs() == 2); // At 4.5.
    assert_eq!(series.missed(), 1);
    assert_eq!(series.next_due(), Some(rig.start + secs(5) + half));
    rig.clock.advance(SECOND);
    until(|| series.runs() == 3);
    assert_eq!(series.next_due(), Some(rig.start + secs(6) + half));
    assert_eq!((series.missed(), stamps.len()), (1, 3));
    rig.end();
}

#[testkit::test]
fn a_clock_jump_of_an_hour_causes_one_run_except_with_burst() {
    let hour = 3600;
    for (missed, runs, dropped) in [
        // On time again at the last tick of the hour.
        (Missed::Skip, 2, hour - 2),
        (Missed::Burst, hour, hour - 2),
        (Missed::Delay, 2, 1),
    ] {
        let rig = Rig::new(2);
        let every = every_second().missed(missed);
        let series = rig.scheduled.spawn_series(SECOND, &every, || ()).unwrap();
        rig.clock.advance(secs(hour));
        until(|| series.next_due() == Some(rig.start + secs(hour + 1)));
        assert_eq!(
            (series.runs(), series.missed()),
            (runs, dropped),
            "{missed:?}"
        );
        assert_eq!(rig.scheduled.stats().missed, dropped);
        rig.end();
    }
}

#[testkit::test]
fn runs_that_wait_for_room_miss_ticks_like_running_ones() {
    let rig = Rig::new(1);
    let gate = crate::support::hold(&rig.pool, 1);
    let series = rig
        .scheduled
        .spawn_at_fixed_rate(SECOND, SECOND, || ())
        .unwrap();
    rig.clock.advance(SECOND);
    until(|| rig.pool.waiting() == 1);
    rig.clock.advance(secs(2) + SECOND / 2);
    gate.open();
    until(|| series.runs() == 1);
    assert_eq!(series.missed(), 2, "the ticks at 2 and 3");
    assert_eq!(series.next_due(), Some(rig.start + secs(4)));
    rig.end();
}

//! Repeating jobs, and the times of their schedules.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use durable_queue::{
    Cancelled, DurableQueue, Put, Retried, Schedule, ScheduleError, SettleError, ShutDown, Store,
    StoreTime, UNREADABLE,
};
use durable_queue_testing::{Call, Fault, ManualStoreClock, SimStore};
use jiff::Timestamp;
use sync_shim::Clock;

use crate::support::{LONG, SECOND, Time, job, on_thread};

fn at(text: &str) -> StoreTime {
    let time: Timestamp = text.parse().unwrap();
    StoreTime::from_micros(time.as_microsecond())
}

fn schedule(text: &str) -> Schedule {
    text.parse().unwrap()
}

/// Returns the times after `from`, in UTC.
fn times<const N: usize>(text: &str, from: &str) -> [String; N] {
    let schedule = schedule(text);
    let mut time = at(from);
    [(); N].map(|()| {
        let next = schedule.next_after(time).unwrap();
        assert!(next > time);
        time = next;
        Timestamp::from_microsecond(next.as_micros())
            .unwrap()
            .to_string()
    })
}

#[test]
fn times_are_in_utc_without_daylight_saving() {
    let found = times("30 2 * * *", "2031-03-29T12:00:00Z");
    assert_eq!(found, ["2031-03-30T02:30:00Z", "2031-03-31T02:30:00Z"]);
    let found = times("0 7 * * MON-FRI", "2031-05-02T07:00:00Z");
    assert_eq!(found, ["2031-05-05T07:00:00Z", "2031-05-06T07:00:00Z"]);
    let found = times("*/20 * * * * *", "2031-05-02T07:00:00.000001Z");
    assert_eq!(
        found,
        [
            "2031-05-02T07:00:20Z",
            "2031-05-02T07:00:40Z",
            "2031-05-02T07:01:00Z"
        ]
    );
}

/// Clocks in Berlin were put forward on 2024-03-31 at 02:00, and back on 2024-10-27 at 03:00.
#[test]
fn in_a_time_zone_no_daily_run_is_skipped_or_repeated() {
    let spring = times("CRON_TZ=Europe/Berlin 30 2 * * *", "2024-03-30T00:00:00Z");
    assert_eq!(
        spring,
        [
            "2024-03-30T01:30:00Z",
            "2024-03-31T01:00:00Z",
            "2024-04-01T00:30:00Z"
        ]
    );
    let autumn = times("CRON_TZ=Europe/Berlin 30 2 * * *", "2024-10-26T12:00:00Z");
    assert_eq!(autumn, ["2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"]);
    let hourly = times("CRON_TZ=Europe/Berlin 0 * * * *", "2024-10-26T23:30:00Z");
    assert_eq!(
        hourly,
        [
            "2024-10-27T00:00:00Z",
            "2024-10-27T01:00:00Z",
            "2024-10-27T02:00:00Z"
        ]
    );
}

/// 14 kinds of years: the 29th of February falls on each weekday within 28 of them.
#[test]
fn a_pattern_without_a_matching_day_is_rejected_when_parsed() {
    for never in [
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 0 29 2 * 2031",
        "0 0 0 29 2 * 2029-2031",
        "0 0 31 * +MON#1",
        "CRON_TZ=Europe/Berlin 0 0 30 2 *",
    ] {
        let error = never.parse::<Schedule>().unwrap_err();
        assert!(matches!(error, ScheduleError::Never), "{never}: {error:?}");
    }
    let from = "2031-01-01T00:00:00Z";
    for (seldom, first) in [
        ("0 0 29 2 *", "2032-02-29T00:00:00Z"),
        ("0 0 29 2 +FRI", "2036-02-29T00:00:00Z"),
        ("0 0 * 2 MON#5", "2044-02-29T00:00:00Z"),
        ("0 0 30 2 MON", "2031-02-03T00:00:00Z"),
        ("0 0 30,31 2,3 *", "2031-03-30T00:00:00Z"),
        ("0 0 L 2 *", "2031-02-28T00:00:00Z"),
        ("0 0 31W 4,12 *", "2031-12-31T00:00:00Z"),
    ] {
        assert_eq!(times(seldom, from), [first], "{seldom}");
    }
    // The schedule has ended, which is different: an existing job keeps it.
    assert_eq!(schedule("0 0 0 1 1 * 1999").next_after(at(from)), None);
}

/// Samoa went from 2011-12-29 to 2011-12-31, Kwajalein from 1993-08-20 to 1993-08-22.
#[test]
fn a_day_skipped_by_a_zone_has_no_runs_and_does_not_end_the_schedule() {
    let samoa = times("CRON_TZ=Pacific/Apia 0 0 * * *", "2011-12-29T00:00:00Z");
    assert_eq!(
        samoa,
        [
            "2011-12-29T10:00:00Z",
            "2011-12-30T10:00:00Z",
            "2011-12-31T10:00:00Z"
        ]
    );
    let noon = times("CRON_TZ=Pacific/Apia 0 12 * * *", "2011-12-29T00:00:00Z");
    assert_eq!(noon, ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"]);
    let of_that_day = times("CRON_TZ=Pacific/Apia 0 0 30 12 *", "2011-12-01T00:00:00Z");
    assert_eq!(of_that_day, ["2012-12-29T10:00:00Z"]);
    let hourly = times("CRON_TZ=Pacific/Apia 0 * * * *", "2011-12-30T08:30:00Z");
    assert_eq!(hourly, ["2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z"]);
    let kwajalein = times(
        "CRON_TZ=Pacific/Kwajalein 0 0 * * *",
        "1993-08-20T00:00:00Z",
    );
    assert_eq!(
        kwajalein,
        [
            "1993-08-20T12:00:00Z",
            "1993-08-21T12:00:00Z",
            "1993-08-22T12:00:00Z"
        ]
    );
}

/// Clocks were put forward at midnight, and back to 23:00 or to 00:00.
#[test]
fn a_skipped_midnight_runs_at_the_start_of_the_day_and_a_repeated_midnight_runs_once() {
    for (pattern, from, expected) in [
        // To 01:00.
        (
            "CRON_TZ=America/Sao_Paulo 0 0 * * *",
            "2018-11-03T12:00:00Z",
            ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"],
        ),
        (
            "CRON_TZ=Asia/Beirut 0 0 * * *",
            "2024-03-30T12:00:00Z",
            ["2024-03-30T22:00:00Z", "2024-03-31T21:00:00Z"],
        ),
        (
            "CRON_TZ=Africa/Cairo 0 0 * * *",
            "2024-04-25T12:00:00Z",
            ["2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z"],
        ),
        // The same with several times of day.
        (
            "CRON_TZ=Asia/Beirut 0 0,12 * * *",
            "2024-03-30T12:00:00Z",
            ["2024-03-30T22:00:00Z", "2024-03-31T09:00:00Z"],
        ),
        (
            "CRON_TZ=Asia/Beirut 0,30 0 * * *",
            "2024-03-30T12:00:00Z",
            ["2024-03-30T22:00:00Z", "2024-03-31T21:00:00Z"],
        ),
        // From 00:00 to 23:00 of the previous day, and from 01:00 to 00:00.
        (
            "CRON_TZ=Asia/Beirut 30 23 * * *",
            "2024-10-26T12:00:00Z",
            ["2024-10-26T20:30:00Z", "2024-10-27T21:30:00Z"],
        ),
        (
            "CRON_TZ=America/Havana 0 0,12 * * *",
            "2024-11-02T20:00:00Z",
            ["2024-11-03T04:00:00Z", "2024-11-03T17:00:00Z"],
        ),
        // From 23:00 to 00:00: the day is shorter, and has its run at its end.
        (
            "CRON_TZ=America/Nuuk 30 23 * * SAT",
            "2024-03-30T12:00:00Z",
            ["2024-03-31T01:00:00Z", "2024-04-07T00:30:00Z"],
        ),
        // By three hours, from 00:01.
        (
            "CRON_TZ=Antarctica/Casey 0 1 * * *",
            "2020-10-03T12:00:00Z",
            ["2020-10-03T16:01:00Z", "2020-10-04T14:00:00Z"],
        ),
        // Hourly runs continue.
        (
            "CRON_TZ=Asia/Beirut 0 0-23 * * *",
            "2024-10-26T20:30:00Z",
            ["2024-10-26T21:00:00Z", "2024-10-26T22:00:00Z"],
        ),
        (
            "CRON_TZ=Asia/Beirut */30 * * * *",
            "2024-10-26T20:00:00Z",
            ["2024-10-26T20:30:00Z", "2024-10-26T21:00:00Z"],
        ),
    ] {
        assert_eq!(times(pattern, from), expected, "{pattern}");
    }
}

#[test]
fn a_schedule_is_parsed_from_its_text() {
    for text in [
        "0 3 * * *",
        "CRON_TZ=Europe/Berlin @daily",
        "0 0 0 1 1 * 2031",
    ] {
        let schedule = schedule(text);
        assert_eq!(schedule.as_str(), text);
        assert_eq!(schedule, schedule.to_string().parse().unwrap());
    }
    let moved = schedule("0 3 * * *").in_zone("Asia/Tokyo").unwrap();
    assert_eq!(moved.as_str(), "CRON_TZ=Asia/Tokyo 0 3 * * *");
    assert_eq!(
        moved.in_zone("Europe/Berlin").unwrap().as_str(),
        "CRON_TZ=Europe/Berlin 0 3 * * *"
    );
    for wrong in [
        "",
        "often",
        "61 * * * *",
        "CRON_TZ=Europe/Berlin",
        "CRON_TZ=Moon/Sea 0 3 * * *",
    ] {
        let error = wrong.parse::<Schedule>().unwrap_err();
        let is_zone = matches!(error, ScheduleError::Zone);
        assert_eq!(is_zone, wrong.starts_with("CRON_TZ"), "{wrong}: {error}");
    }
}

#[test]
fn a_schedule_that_has_ended_or_is_out_of_range_has_no_next_time() {
    let once = schedule("0 0 0 1 1 * 2031");
    assert_eq!(
        once.next_after(at("2030-05-01T00:00:00Z")),
        Some(at("2031-01-01T00:00:00Z"))
    );
    assert_eq!(once.next_after(at("2031-01-01T00:00:00Z")), None);
    for time in [StoreTime::NEVER, StoreTime::from_micros(i64::MIN)] {
        assert_eq!(once.next_after(time), None);
    }
}

type Queue<S> = DurableQueue<String, S>;

/// The store's clock starts in the middle of a day.
fn put<S: Store>(queue: &Queue<S>, pattern: &str) -> Put {
    let value = job("report");
    queue
        .push_repeating("key", &schedule(pattern), value)
        .unwrap()
}

fn next<S: Store>(queue: &Queue<S>) -> Duration {
    let [pending] = &queue.list(None, 10).unwrap()[..] else {
        panic!("the job exists once");
    };
    pending.at.since(ManualStoreClock::START)
}

const HOUR: Duration = Duration::from_secs(3_600);

/// From the clock's start, 2001-09-09T01:46:40, to the first full hour.
const FIRST: Duration = Duration::from_secs(13 * 60 + 20);

#[testkit::test]
fn a_job_runs_at_each_time_of_its_schedule_until_it_is_cancelled() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let id = put(&queue, "@hourly").id();
    for hour in 0..3 {
        assert_eq!(next(&queue), FIRST + HOUR * hour);
        let passed = ManualStoreClock::START.after(next(&queue));
        let present = queue.store().turn("queue", &[], None).unwrap().now;
        time.clock.advance(passed.since(present));
        let taken = queue.take().unwrap();
        assert_eq!((taken.id(), taken.attempt()), (id, 1));
        assert_eq!(taken.schedule(), Some("@hourly"));
        taken.ack().unwrap();
    }
    assert!(queue.cancel("key").unwrap().is_gone());
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
}

#[testkit::test]
fn missed_times_result_in_one_run() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    put(&queue, "@hourly");
    time.clock.advance(FIRST + HOUR * 10 + SECOND);
    queue.take().unwrap().ack().unwrap();
    assert_eq!(next(&queue), FIRST + HOUR * 11);
}

#[test]
fn pushing_at_a_start_keeps_the_pending_run_and_sets_the_new_schedule() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let id = put(&queue, "@hourly").id();
    time.clock.advance(FIRST + SECOND);
    assert_eq!(put(&queue, "@daily"), Put::Merged(id));
    assert_eq!(next(&queue), FIRST, "it was missed, and is due");
    queue.take().unwrap().ack().unwrap();
    assert_eq!(next(&queue), FIRST + HOUR * 22);
}

/// The push reads the store's clock, and inserts the job by another call. In between, its time comes, and it
/// runs.
#[testkit::test]
fn pushing_while_a_tick_passes_does_not_repeat_the_tick() {
    for is_done_before in [true, false] {
        let time = Time::new();
        let (at_store, is_over) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let is_held = Arc::new(AtomicBool::new(false));
        let held = (
            Arc::clone(&is_held),
            Arc::clone(&at_store),
            Arc::clone(&is_over),
        );
        let plan = move |call| {
            if matches!(call, Call::Enqueue) && held.0.swap(false, SeqCst) {
                held.1.wait();
                held.2.wait();
            }
            Fault::None
        };
        let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
        let id = put(&queue, "@hourly").id();
        time.clock.advance(FIRST - SECOND);
        is_held.store(true, SeqCst);
        let start = on_thread(&queue, |queue| put(queue, "@hourly"));
        at_store.wait();
        time.clock.advance(SECOND);
        let run = queue.take().unwrap();
        if is_done_before {
            run.ack().unwrap();
            is_over.wait();
            assert_eq!(start.join().unwrap(), Put::Merged(id));
        } else {
            is_over.wait();
            assert_eq!(start.join().unwrap(), Put::Merged(id));
            run.ack().unwrap();
        }
        assert_eq!(next(&queue), FIRST + HOUR);
    }
}

#[testkit::test]
fn a_run_that_fails_permanently_is_followed_by_the_next() {
    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
    put(&queue, "@hourly");
    time.clock.advance(FIRST);
    assert_eq!(
        queue.take().unwrap().retry("no").unwrap(),
        Retried::Again(SECOND.into())
    );
    time.clock.advance(SECOND);
    let taken = queue.take().unwrap();
    assert_eq!(taken.attempt(), 2);
    assert_eq!(taken.retry("no").unwrap(), Retried::NextTime);
    assert_eq!(next(&queue), FIRST + HOUR);
    assert_eq!(queue.list(None, 1).unwrap()[0].attempts, 0);
}

#[testkit::test]
fn a_cancel_during_a_run_makes_it_the_last() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    put(&queue, "@hourly");
    time.clock.advance(FIRST);
    let taken = queue.take().unwrap();
    assert_eq!(queue.cancel("key").unwrap(), Cancelled::Taken);
    taken.ack().unwrap();
    assert!(queue.list(None, 1).unwrap().is_empty());
}

/// The acknowledgement is carried out, and is sent again.
#[testkit::test]
fn a_run_whose_acknowledgement_has_no_response_is_not_duplicated() {
    let time = Time::new();
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let plan = move |call| match call {
        Call::Turn if failing.swap(false, SeqCst) => Fault::After,
        _ => Fault::None,
    };
    let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
    put(&queue, "@hourly");
    time.clock.advance(FIRST);
    let taken = queue.take().unwrap();
    fails.store(true, SeqCst);
    let acked = taken.ack_async();
    while queue.last_error().is_none() {
        std::thread::yield_now();
    }
    time.advance(durable_queue::internals::FIRST_PAUSE);
    assert!(matches!(acked.wait(), Err(SettleError::Unknown)));
    assert_eq!(next(&queue), FIRST + HOUR);
}

#[testkit::test]
fn a_job_whose_schedule_cannot_be_read_stays_for_a_day_and_is_then_buried() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let newer = durable_queue::NewJob {
        payload: b"job",
        when: SECOND.into(),
        key: Some(b"key"),
        group: None,
        merge: durable_queue::Merge::Keep,
        schedule: Some("at full moon"),
        urgent: false,
        kind: None,
        options: None,
    };
    queue.store().enqueue("queue", &[newer]).unwrap();
    time.clock.advance(SECOND);
    let taker = on_thread(&queue, |queue| queue.take().unwrap_err().is_shut_down());
    let listed = || queue.list(None, 10).unwrap();
    // Other processes may read it.
    let begin = time.clock.now();
    while !listed().is_empty() {
        time.clock.wait_for_sleepers(1);
        time.clock.advance(SECOND * 60);
    }
    assert!(time.clock.now() - begin >= UNREADABLE);
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    assert!(taker.join().unwrap());
    let dead = queue.dead(None, 10).unwrap();
    assert_eq!(dead[0].schedule.as_deref(), Some("at full moon"));
    assert_eq!(dead[0].attempts, 0);
    assert_eq!(
        dead[0].error,
        "the job's schedule cannot be parsed by this process"
    );
}

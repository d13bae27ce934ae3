//! The timer thread, and failures to start threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;
use std::time::{Duration, Instant};

use pool_core::{BuildError, Clock, JoinError, ManualClock, Pool};
use scheduled_pool::{DEFAULT_THREAD_NAME, ScheduleError, ScheduledHandle, ScheduledPool};
use sync_shim::{Alarm, Parker};
use testkit::DropCounter;

use crate::support::{Journal, Rig, SECOND, every_second, hold, secs, until, untimed};

const MILLI: Duration = Duration::from_millis(1);

#[testkit::test]
fn a_failed_start_of_the_timer_thread_returns_the_task() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let scheduled = ScheduledPool::builder(pool)
        .thread_stack_size(usize::MAX / 2)
        .build()
        .unwrap();
    let refused = scheduled.spawn_after(SECOND, || 5).unwrap_err();
    assert!(matches!(refused, ScheduleError::NoThread(..)));
    assert!(
        refused
            .to_string()
            .starts_with("the timer thread could not be started: ")
    );
    assert!(std::error::Error::source(&refused).is_some());
    assert_eq!(refused.into_task()(), 5);
    let drops = DropCounter::new();
    let token = drops.token();
    let series = scheduled.spawn_series(SECOND, &every_second(), move || _ = &token);
    assert!(matches!(series, Err(ScheduleError::NoThread(..))));
    drop(series);
    assert_eq!((drops.alive(), scheduled.stats().scheduled), (0, 0));
    scheduled.release();
    scheduled.wait_released().unwrap();
}

#[testkit::test]
fn a_timer_thread_name_with_a_nul_is_refused() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let refused = ScheduledPool::builder(pool).thread_name("a\0b").build();
    assert!(matches!(refused, Err(BuildError::NulInName)));
}

/// A clock that counts its sleepers and its reads.
#[derive(Clone, Debug)]
struct Watched(ManualClock, Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicUsize,
    waits: AtomicUsize,
    names: std::sync::Mutex<std::collections::BTreeSet<String>>,
}

impl Clock for Watched {
    fn now(&self) -> Instant {
        self.1.reads.fetch_add(1, SeqCst);
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.1.waits.fetch_add(1, SeqCst);
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        self.1.names.lock().unwrap().insert(name);
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        self.0.wake_at(when, waker)
    }
}

fn watched() -> (Rig, Arc<Counts>) {
    let clock = Watched(ManualClock::new(), Arc::default());
    let pool = Pool::builder()
        .capacity(2)
        .keep_alive(None)
        .clock(clock.clone())
        .build()
        .unwrap();
    (Rig::over(pool, clock.0), clock.1)
}

#[testkit::test]
fn one_named_timer_thread_serves_all_schedules() {
    let (rig, counts) = watched();
    let handles: Vec<_> = (0..100)
        .map(|number| {
            rig.scheduled
                .spawn_after(secs(1 + number % 7), || ())
                .unwrap()
        })
        .collect();
    let series: Vec<_> = (0..10)
        .map(|_| {
            rig.scheduled
                .spawn_series(SECOND, &every_second(), || ())
                .unwrap()
        })
        .collect();
    for second in 1..=10 {
        rig.sleeps_until(secs(second));
        rig.clock.advance(SECOND);
        for series in &series {
            until(|| series.runs() == second);
        }
    }
    for handle in handles {
        handle.join().unwrap();
    }
    let names = counts.names.lock().unwrap().clone();
    assert!(names.iter().eq([DEFAULT_THREAD_NAME]), "{names:?}");
    rig.end();
}

#[testkit::test]
fn a_sleeping_timer_waits_once_for_each_time_and_does_not_poll() {
    let (rig, counts) = watched();
    let handles: Vec<_> = (1..=20)
        .map(|after| rig.scheduled.spawn_after(secs(after), || ()).unwrap())
        .collect();
    rig.sleeps_until(secs(1));
    let waits = counts.waits.load(SeqCst);
    for second in 1..=20 {
        assert_eq!(counts.waits.load(SeqCst), waits + second - 1);
        rig.clock.advance(SECOND);
        until(|| handles[second - 1].is_finished());
        if second < 20 {
            rig.sleeps_until(secs(second as u64 + 1));
        }
    }
    // The clock is read when the timer wakes, after each batch, and at the start and end of each
    // run.
    assert!(counts.reads.load(SeqCst) < 20 * 8);
    rig.end();
}

#[testkit::test]
fn a_later_schedule_and_a_cancel_do_not_wake_the_timer() {
    let (rig, counts) = watched();
    let first = rig.scheduled.spawn_after(secs(1), || ()).unwrap();
    rig.sleeps_until(secs(1));
    let waits = counts.waits.load(SeqCst);
    let later: Vec<_> = (2..100)
        .map(|after| rig.scheduled.spawn_after(secs(after), || ()).unwrap())
        .collect();
    let same = rig.scheduled.spawn_after(secs(1), || ()).unwrap();
    assert!(later.iter().skip(1).all(ScheduledHandle::cancel));
    rig.clock.advance(SECOND);
    first.join().unwrap();
    same.join().unwrap();
    rig.sleeps_until(secs(2));
    assert_eq!(counts.waits.load(SeqCst), waits + 1);
    assert!(later[0].cancel());
    rig.end();
}

#[testkit::test]
fn no_thread_waits_on_the_clock_while_no_schedule_is_pending() {
    let rig = Rig::new(1);
    assert_eq!(rig.clock.sleepers(), 0);
    let handle = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    rig.sleeps_until(SECOND);
    rig.clock.advance(SECOND);
    handle.join().unwrap();
    rig.clock.advance(secs(1000));
    assert_eq!(rig.clock.sleepers(), 0);
    // A wake-up ends this sleep as well.
    assert_eq!(
        rig.scheduled
            .spawn_after(secs(0), || 5)
            .unwrap()
            .join()
            .unwrap(),
        5
    );
    rig.end();
}

/// A pool whose first `refusals` thread starts are refused.
fn refusing(refusals: usize, clock: &ManualClock) -> Pool {
    let refusals = AtomicUsize::new(refusals);
    untimed(1, clock)
        .thread_gate(move || {
            let refused = refusals.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            refused.map_or(Ok(()), |_| Err(io::Error::other("none left")))
        })
        .build()
        .unwrap()
}

#[testkit::test]
fn a_due_task_that_finds_no_thread_is_offered_again() {
    let clock = ManualClock::new();
    let rig = Rig::over(refusing(3, &clock), clock);
    let journal = Journal::new();
    let handles: Vec<_> = (0..5)
        .map(|number| {
            rig.scheduled
                .spawn_after(SECOND, journal.writer(number))
                .unwrap()
        })
        .collect();
    rig.clock.advance(SECOND);
    let mut at = SECOND;
    for (failures, wait) in [(1, 1), (2, 2), (3, 4)] {
        at += wait * MILLI;
        rig.sleeps_until(at);
        assert_eq!(rig.scheduled.stats().thread_failures, failures);
        rig.clock.advance(wait * MILLI);
    }
    for handle in handles {
        handle.join().unwrap();
    }
    assert_eq!(journal.entries(), [0, 1, 2, 3, 4]);
    let stats = rig.scheduled.stats();
    assert_eq!((stats.thread_failures, stats.max_lateness), (3, 7 * MILLI));
    assert_eq!(rig.pool.stats().refused, 0);
    rig.end();
}

#[testkit::test]
fn the_wait_between_offers_is_bounded_by_a_second() {
    let clock = ManualClock::new();
    let rig = Rig::over(refusing(usize::MAX, &clock), clock);
    let handle = rig.scheduled.spawn_after(secs(0), || ()).unwrap();
    for failures in 1..30 {
        until(|| rig.scheduled.stats().thread_failures == failures);
        until(|| rig.clock.next_due().is_some());
        let wait = rig.clock.next_due().unwrap() - rig.clock.now();
        assert_eq!(wait, SECOND.min(MILLI * (1 << (failures - 1).min(20))));
        rig.clock.advance(wait);
    }
    assert!(handle.cancel());
    rig.end();
}

#[testkit::test]
fn a_successful_offer_resets_the_waits_between_offers() {
    let clock = ManualClock::new();
    let asked = AtomicUsize::new(0);
    let pool = Pool::builder()
        .capacity(1)
        .keep_alive(SECOND)
        .clock(clock.clone())
        .thread_gate(move || match asked.fetch_add(1, SeqCst) {
            0 | 1 | 3 => Err(io::Error::other("none left")),
            _ => Ok(()),
        })
        .build()
        .unwrap();
    let rig = Rig::over(pool, clock);
    let first = rig.scheduled.spawn_after(Duration::ZERO, || ()).unwrap();
    rig.sleeps_until(MILLI);
    rig.clock.advance(MILLI);
    rig.sleeps_until(3 * MILLI);
    rig.clock.advance(2 * MILLI);
    first.join().unwrap();
    rig.clock.wait_for_sleepers(1); // The worker, whose keep-alive is one second.
    rig.clock.advance(SECOND);
    until(|| rig.pool.running() == 0);
    let second = rig.scheduled.spawn_after(Duration::ZERO, || ()).unwrap();
    rig.sleeps_until(SECOND + 4 * MILLI);
    rig.clock.advance(MILLI);
    second.join().unwrap();
    rig.end();
}

#[testkit::test]
fn a_task_held_for_want_of_a_thread_can_be_cancelled_and_released() {
    for how in 0..3 {
        let clock = ManualClock::new();
        let rig = Rig::over(refusing(usize::MAX, &clock), clock);
        let drops = DropCounter::new();
        let (one, two) = (drops.token(), drops.token());
        let first = rig
            .scheduled
            .spawn_after(SECOND, move || drop(one))
            .unwrap();
        let second = rig
            .scheduled
            .spawn_after(SECOND, move || drop(two))
            .unwrap();
        rig.clock.advance(SECOND);
        rig.sleeps_until(SECOND + MILLI);
        match how {
            0 => assert!(first.cancel() && second.cancel()),
            1 => assert!(rig.pool.release()),
            _ => assert_eq!(rig.scheduled.release_now().len(), 2),
        }
        assert_eq!(drops.alive(), 0);
        for handle in [first, second] {
            match handle.try_join().unwrap() {
                Err(JoinError::Cancelled) => assert_eq!(how, 0),
                Err(JoinError::Released) => assert_ne!(how, 0),
                other => panic!("{other:?}"),
            }
        }
        rig.end();
    }
}

#[testkit::test]
fn tasks_behind_a_cancelled_held_task_are_offered_in_order() {
    let clock = ManualClock::new();
    let rig = Rig::over(refusing(1, &clock), clock);
    let first = rig.scheduled.spawn_after(SECOND, || 1).unwrap();
    let second = rig.scheduled.spawn_after(SECOND, || 2).unwrap();
    rig.clock.advance(SECOND);
    rig.sleeps_until(SECOND + MILLI);
    assert!(first.cancel());
    rig.clock.advance(MILLI);
    assert_eq!(second.join().unwrap(), 2);
    rig.end();
}

#[testkit::test]
fn the_timer_thread_ends_with_the_last_schedule_after_the_last_handle() {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).build().unwrap();
    let gate = hold(&pool, 1);
    let scheduled = ScheduledPool::new(pool.clone());
    let task = scheduled.spawn_after(SECOND, || ()).unwrap();
    let other = scheduled.spawn_after(secs(9), || ()).unwrap();
    drop(scheduled);
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    gate.open();
    task.join().unwrap();
    other.cancel();
    until(|| clock.sleepers() == 0);
    pool.release();
    pool.wait_released().unwrap();
}

#[testkit::test]
fn times_before_the_pools_creation_keep_their_order_and_due_times() {
    let clock = ManualClock::new();
    let rig = Rig::over(refusing(1, &clock), clock);
    // Deadlines that a program has restored at its start: they passed while it was not running.
    let ago = |seconds| rig.start.checked_sub(secs(seconds)).unwrap();
    let journal = Journal::new();
    let schedule = |seconds| {
        let task = journal.writer(seconds);
        rig.scheduled.spawn_at(ago(seconds), task).unwrap()
    };
    // The timer holds this schedule, and the others are in the heap together.
    let held = schedule(9);
    rig.sleeps_until(MILLI);
    let handles = [1, 5, 3, 4, 2].map(schedule);
    let dues = handles.each_ref().map(ScheduledHandle::next_due);
    assert_eq!(dues, [1, 5, 3, 4, 2].map(|seconds| Some(ago(seconds))));
    rig.clock.advance(MILLI);
    held.join().unwrap();
    for handle in handles {
        handle.join().unwrap();
    }
    assert_eq!(journal.entries(), [9, 5, 4, 3, 2, 1]);
    assert_eq!(rig.scheduled.stats().max_lateness, secs(9) + MILLI);
    rig.end();
}

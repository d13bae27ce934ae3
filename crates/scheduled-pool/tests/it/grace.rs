//! What a release gives back that never started, at once or when its grace is over.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::ControlFlow::Break;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use pool_core::{GraceEnd, JoinError, WaitError, current};
use scheduled_pool::{Missed, OnPanic, ScheduledPool, Series, UnstartedTask};
use testkit::{DropCounter, Gate, block_on};

use crate::support::{Journal, Rig, SECOND, every_second, hold, secs, until};

#[testkit::test]
fn a_release_now_gives_each_schedule_back_with_its_name_its_time_and_what_it_was_to_run() {
    let rig = Rig::new(1);
    let gate = hold(&rig.pool, 1);
    let journal = Journal::new();
    let in_line = rig.scheduled.spawn_after(secs(0), journal.writer("line"));
    until(|| rig.pool.waiting() == 1);
    let named = rig.scheduled.task().name("named");
    let named = named.spawn_after(secs(5), journal.writer("named"));
    let never = rig.scheduled.spawn_after(std::time::Duration::MAX, || 1);
    let back = rig.scheduled.release_now();
    assert_eq!((back.len(), back.tasks(), back.is_empty()), (3, 0, false));
    assert!(back.schedules().iter().all(|it| !it.is_series()));
    assert!(matches!(in_line.unwrap().join(), Err(JoinError::Released)));
    assert!(matches!(named.unwrap().join(), Err(JoinError::Released)));
    assert!(matches!(never.unwrap().join(), Err(JoinError::Released)));
    let mut by_time = BTreeMap::new();
    for schedule in back {
        assert!(schedule.task().contains("grace::") || schedule.task().contains("writer"));
        let name = schedule.name().map(str::to_owned);
        let due = schedule.due().map(|due| due - rig.start);
        let UnstartedTask::Once(task) = schedule.into_task() else {
            panic!("it was to run once");
        };
        task();
        by_time.insert(due, name);
    }
    let named = Some("named".to_owned());
    assert_eq!(
        by_time.into_iter().collect::<Vec<_>>(),
        [(None, None), (Some(secs(0)), None), (Some(secs(5)), named)]
    );
    let mut ran = journal.entries();
    ran.sort_unstable();
    assert_eq!(ran, ["line", "named"]);
    assert!(rig.scheduled.release_now().is_empty());
    gate.open();
    rig.end();
}

#[testkit::test]
fn a_series_comes_back_with_its_rhythm_and_the_runs_that_were_left_and_goes_on_elsewhere() {
    let rig = Rig::new(1);
    let runs = |n| NonZeroU64::new(n).unwrap();
    let series = Series::at_fixed_rate(SECOND).missed(Missed::Burst);
    let series = series.on_panic(OnPanic::Continue);
    let journal = Journal::new();
    let entries = journal.clone();
    let thrice = series.clone().max_runs(runs(3));
    let task = move || entries.write(());
    let handle = rig.scheduled.spawn_series(secs(0), &thrice, task).unwrap();
    until(|| handle.runs() == 1);
    let delayed = Series::with_fixed_delay(secs(2));
    let breaks = || Break(());
    let until_it_breaks = rig.scheduled.spawn_series_until(SECOND, &delayed, breaks);
    let paced = || Break::<_, std::time::Duration>("a value");
    let paced = rig.scheduled.spawn_self_paced(SECOND, paced).unwrap();
    let other = Rig::new(1);
    let mut kinds = [0; 2];
    let back = rig.scheduled.release_now();
    assert_eq!(back.len(), 3);
    for schedule in back {
        assert!(schedule.is_series());
        assert_eq!(schedule.due(), Some(rig.start + SECOND));
        match schedule.into_task() {
            UnstartedTask::Series(mut task, again) if again == delayed => {
                assert_eq!(task(), Break(()));
                kinds[0] += 1;
            }
            UnstartedTask::Series(task, again) => {
                assert_eq!(again, series.clone().max_runs(runs(2)));
                let goes_on = other.scheduled.spawn_series_until(secs(0), &again, task);
                let goes_on = goes_on.unwrap();
                until(|| goes_on.runs() == 1);
                other.sleeps_until(SECOND);
                other.clock.advance(SECOND);
                goes_on.join().unwrap();
            }
            UnstartedTask::SelfPaced(mut task) => {
                assert_eq!(task(), Break(()));
                kinds[1] += 1;
            }
            UnstartedTask::Once(_) => panic!("none was to run once"),
        }
    }
    assert_eq!((kinds, journal.entries().len()), ([1, 1], 3));
    assert!(matches!(handle.join(), Err(JoinError::Released)));
    assert!(matches!(
        until_it_breaks.unwrap().join(),
        Err(JoinError::Released)
    ));
    assert!(matches!(paced.join(), Err(JoinError::Released)));
    other.end();
    rig.end();
}

#[testkit::test]
fn a_series_whose_run_is_under_way_does_not_come_back_and_is_asked_to_stop() {
    let rig = Rig::new(1);
    let (gate, asked) = (Gate::new(), Journal::new());
    let (held, entries) = (gate.clone(), asked.clone());
    let task = move || {
        held.wait();
        entries.write(current().is_cancelled());
    };
    let series = rig.scheduled.task().name("runs");
    let series = series.spawn_series(secs(0), &every_second(), task).unwrap();
    gate.wait_for_arrivals(1);
    assert!(rig.scheduled.release_now().is_empty());
    gate.open();
    assert!(matches!(series.join(), Err(JoinError::Released)));
    assert_eq!(asked.entries(), [true]);
    rig.end();
}

#[testkit::test]
fn what_is_not_taken_is_dropped_with_the_answer_and_a_panic_of_that_ends_there() {
    struct Panics(#[expect(dead_code, reason = "for its drop")] Arc<()>);
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("as it is dropped");
        }
    }
    let rig = Rig::new(1);
    let (drops, kept) = (DropCounter::new(), Arc::new(()));
    for _ in 0..2 {
        let (token, panics) = (drops.token(), Panics(Arc::clone(&kept)));
        let task = move || drop((token, panics));
        drop(rig.scheduled.spawn_after(SECOND, task).unwrap());
    }
    let back = rig.scheduled.release_now();
    assert_eq!((back.len(), drops.alive()), (2, 2));
    drop(back);
    assert_eq!((drops.alive(), Arc::strong_count(&kept)), (0, 1));
    rig.end();
}

#[testkit::test]
fn schedules_that_are_due_within_the_grace_run_and_the_later_ones_come_back() {
    let rig = Rig::new(1);
    let early = rig.scheduled.spawn_after(secs(1), || 1).unwrap();
    let late = rig.scheduled.spawn_after(secs(9), || 2).unwrap();
    let releases = {
        let scheduled = rig.scheduled.clone();
        thread::spawn(move || scheduled.release_with_grace(secs(5)))
    };
    until(|| rig.scheduled.is_released());
    rig.sleeps_until(secs(1));
    rig.clock.advance(secs(1));
    assert_eq!(early.join().unwrap(), 1);
    assert!(!rig.pool.is_released());
    rig.sleeps_until(secs(5));
    rig.clock.advance(secs(4));
    let GraceEnd::CutShort(back) = releases.join().unwrap().unwrap() else {
        panic!("one was not due");
    };
    assert_eq!(back.len(), 1);
    assert!(matches!(late.join(), Err(JoinError::Released)));
    assert!(rig.pool.is_released());
    rig.end();
}

#[testkit::test]
fn a_scheduled_pool_that_ends_within_the_grace_has_nothing_to_give_back() {
    let rig = Rig::new(1);
    let gate = hold(&rig.pool, 1);
    let due = rig
        .scheduled
        .spawn_after(secs(0), || current().is_cancelled());
    until(|| rig.pool.waiting() == 1);
    let releases = {
        let scheduled = rig.scheduled.clone();
        thread::spawn(move || scheduled.release_with_grace(secs(5)))
    };
    until(|| rig.scheduled.is_released());
    gate.open();
    assert!(matches!(releases.join().unwrap(), Ok(GraceEnd::Ended)));
    assert!(!due.unwrap().join().unwrap());
    rig.end();
    let worker = Rig::new(1);
    let scheduled = worker.scheduled.clone();
    let task = worker
        .pool
        .spawn(move || scheduled.release_with_grace(secs(5)).unwrap_err());
    assert_eq!(task.unwrap().join().unwrap(), WaitError::WouldDeadlock);
    worker.end();
}

#[testkit::test]
fn as_a_future_it_releases_at_its_first_poll_and_gives_back_when_the_grace_is_over() {
    let rig = Rig::new(1);
    let later = rig.scheduled.spawn_after(secs(9), || ()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(rig.scheduled.release_with_grace_async(secs(5)));
    let mut last = pin!(rig.scheduled.release_with_grace_async(secs(0)));
    rig.clock.advance(SECOND); // It does not count yet.
    assert!(!rig.scheduled.is_released());
    assert!(future.as_mut().poll(&mut context).is_pending());
    assert!(rig.scheduled.is_released() && !rig.pool.is_released());
    rig.clock.advance(secs(4));
    assert!(future.as_mut().poll(&mut context).is_pending());
    assert!(!later.is_finished());
    rig.clock.advance(SECOND);
    match future.as_mut().poll(&mut context) {
        Poll::Ready(Ok(GraceEnd::CutShort(back))) => assert_eq!(back.len(), 1),
        other => panic!("{other:?}"),
    }
    assert!(later.is_finished() && rig.pool.is_released());
    let again = last.as_mut().poll(&mut context);
    assert!(
        matches!(again, Poll::Ready(Ok(GraceEnd::Ended))),
        "{again:?}"
    );
    rig.end();
}

#[testkit::test]
fn a_future_that_is_dropped_within_the_grace_ends_no_schedule_and_keeps_nothing_open() {
    let rig = Rig::new(1);
    let later = rig.scheduled.spawn_after(SECOND, || 7).unwrap();
    let mut future = Box::pin(rig.scheduled.release_with_grace_async(secs(5)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    drop(future);
    rig.sleeps_until(SECOND);
    rig.clock.advance(SECOND);
    assert_eq!(later.join().unwrap(), 7);
    rig.end();
    let ended = block_on(rig.scheduled.release_with_grace_async(SECOND));
    assert!(matches!(ended, Ok(GraceEnd::Ended)));
    let scheduled: ScheduledPool = rig.scheduled.clone();
    let ended = scheduled.release_with_grace(SECOND);
    assert!(matches!(ended, Ok(GraceEnd::Ended)));
}

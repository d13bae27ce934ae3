//! The schedules that `release_now` returns.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::ControlFlow::Break;
use std::sync::Arc;

use pool_core::{JoinError, current};
use scheduled_pool::{Missed, OnPanic, Series, TaskBuilderExt, UnstartedTask};
use testkit::{DropCounter, Gate};

use crate::support::{Journal, Rig, SECOND, every_second, hold, secs, until};

#[testkit::test]
fn release_now_returns_each_schedule_with_its_name_due_time_and_task() {
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
        assert!(schedule.task().contains("unstarted::") || schedule.task().contains("writer"));
        let name = schedule.name().map(str::to_owned);
        let due = schedule.due().map(|due| due - rig.start);
        let UnstartedTask::Once(task) = schedule.into_task() else {
            panic!("it is not a series");
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
fn a_returned_series_keeps_its_period_and_remaining_runs_and_can_be_rescheduled() {
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
            UnstartedTask::Once(_) => panic!("all tasks are series"),
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
fn release_now_does_not_return_a_running_series_and_asks_it_to_stop() {
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
fn untaken_returned_tasks_are_dropped_and_their_panics_caught() {
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

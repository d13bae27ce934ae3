//! Scheduled tasks with names and cancel tokens.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pool_core::{CancelToken, JoinError, Pool, current};
use scheduled_pool::{ScheduledPool, Series, TaskBuilderExt};
use testkit::Gate;

use crate::support::{Rig, SECOND, until, untimed};

#[testkit::test]
fn each_call_sets_the_name_of_its_task() {
    let rig = Rig::new(1);
    let task = || rig.scheduled.task().name("named");
    let name = || current().name().map(str::to_owned);
    let expected = Some("named".to_owned());
    let after = task().spawn_after(Duration::ZERO, name).unwrap();
    assert_eq!(after.join().unwrap(), expected);
    let at = task().spawn_at(rig.start, name).unwrap();
    assert_eq!(at.join().unwrap(), expected);
    let paced = task().spawn_self_paced(Duration::ZERO, move || ControlFlow::Break(name()));
    assert_eq!(paced.unwrap().join().unwrap(), expected);

    let names = Arc::new(Mutex::new(Vec::new()));
    let note = || {
        let names = Arc::clone(&names);
        move || names.lock().unwrap().push(name())
    };
    let once = Series::at_fixed_rate(SECOND).max_runs(std::num::NonZeroU64::MIN);
    let series = task().spawn_series(Duration::ZERO, &once, note());
    series.unwrap().join().unwrap();
    let last = note();
    let until_break = move || {
        last();
        ControlFlow::Break(())
    };
    let series = task().spawn_series_until(Duration::ZERO, &once, until_break);
    series.unwrap().join().unwrap();
    let rated = task().spawn_at_fixed_rate(Duration::ZERO, SECOND, note());
    let delayed = task().spawn_with_fixed_delay(Duration::ZERO, SECOND, note());
    until(|| names.lock().unwrap().len() == 4);
    rated.unwrap().cancel();
    delayed.unwrap().cancel();
    assert!(names.lock().unwrap().iter().all(|name| *name == expected));
    let plain = rig.scheduled.spawn_after(Duration::ZERO, name).unwrap();
    assert_eq!(plain.join().unwrap(), None);
    rig.end();
}

#[testkit::test]
fn a_task_whose_token_is_cancelled_before_its_time_is_dropped_unrun_at_its_time() {
    let rig = Rig::new(1);
    let (stop, ran, kept) = (
        CancelToken::new(),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(()),
    );
    let (runs, held) = (Arc::clone(&ran), Arc::clone(&kept));
    let task = rig.scheduled.task().cancelled_by(&stop);
    let handle = task
        .spawn_after(SECOND, move || {
            runs.fetch_add(1, SeqCst);
            drop(held);
        })
        .unwrap();
    stop.cancel();
    assert_eq!(Arc::strong_count(&kept), 2);
    rig.sleeps_until(SECOND);
    rig.clock.advance(SECOND);
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    assert_eq!((ran.load(SeqCst), Arc::strong_count(&kept)), (0, 1));
    assert_eq!(rig.scheduled.stats().cancelled, 1);
    assert_eq!(rig.pool.stats().cancelled, 1);
    rig.end();
}

#[testkit::test]
fn cancelling_a_series_token_asks_the_run_to_stop_and_ends_the_series() {
    let rig = Rig::new(1);
    let (stop, gate) = (CancelToken::new(), Gate::new());
    let (held, runs) = (gate.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&runs);
    let task = rig.scheduled.task().cancelled_by(&stop);
    let series = task.spawn_at_fixed_rate(Duration::ZERO, SECOND, move || {
        let before = current().is_cancelled();
        held.wait();
        seen.lock()
            .unwrap()
            .push((before, current().is_cancelled()));
    });
    let series = series.unwrap();
    gate.wait_for_arrivals(1);
    stop.cancel();
    gate.open();
    assert!(matches!(series.join(), Err(JoinError::Cancelled)));
    assert_eq!(*runs.lock().unwrap(), [(false, true)]);
    rig.end();
}

#[testkit::test]
fn a_panic_is_reported_with_the_tasks_name() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&names);
    let clock = pool_core::ManualClock::new();
    let pool = untimed(1, &clock).panic_hook(move |panic| {
        let name = panic.name().map(str::to_owned);
        seen.lock().unwrap().push(name);
    });
    let scheduled = ScheduledPool::new(pool.build().unwrap());
    let fails = scheduled.task().name("fatal");
    let fails = fails.spawn_after(Duration::ZERO, || panic!("as asked"));
    assert!(matches!(fails.unwrap().join(), Err(JoinError::Panicked(_))));
    assert_eq!(*names.lock().unwrap(), [Some("fatal".to_owned())]);
}

/// A subscriber that ignores everything.
struct Mine;

impl tracing::Subscriber for Mine {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        false
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[testkit::test]
fn scheduled_tasks_of_every_call_run_under_the_callers_subscriber() {
    let is_mine = || tracing::dispatcher::get_default(tracing::Dispatch::is::<Mine>);
    let pool = Pool::builder().capacity(1).carry_span(true).build();
    let scheduled = ScheduledPool::new(pool.unwrap());
    let (once, paced) = tracing::subscriber::with_default(Mine, || {
        let once = scheduled.spawn_after(Duration::ZERO, is_mine).unwrap();
        let step = move || ControlFlow::Break(is_mine());
        let paced = scheduled.spawn_self_paced(Duration::ZERO, step).unwrap();
        (once, paced)
    });
    assert_eq!((once.join().unwrap(), paced.join().unwrap()), (true, true));
    let outside = scheduled.spawn_after(Duration::ZERO, is_mine).unwrap();
    assert!(!outside.join().unwrap());
}

//! Groups that were cancelled, have failed, or are past their deadline; and errors that waits keep.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use pool_core::{Clock as _, JoinError, ManualClock, OnFull, Pool, SubmitError, current};
use pool_util::{MapError, PoolExt, TaskGroup};
use testkit::{Counted, DropCounter, Gate, block_on};

use crate::support::{hold, until};

const SECOND: Duration = Duration::from_secs(1);

type Fallible = Result<(), &'static str>;

fn pool(clock: &ManualClock, capacity: usize, depth: usize) -> Pool {
    let pool = Pool::builder().capacity(capacity).queue_depth(depth);
    pool.clock(clock.clone()).build().unwrap()
}

/// Three groups without tasks: one was cancelled, one has failed, the deadline of one has passed.
fn cancelled(pool: &Pool, clock: &ManualClock) -> [TaskGroup<Fallible>; 3] {
    let groups = [
        pool.group(),
        pool.group().cancel_on_failure(),
        pool.group().cancel_at(clock.now() + SECOND),
    ];
    assert_eq!(groups[0].cancel(), 0);
    groups[1].spawn(|| Err("failed")).unwrap();
    assert!(matches!(
        groups[1].wait_ok(),
        Err(MapError::Failed("failed"))
    ));
    clock.advance(SECOND);
    groups
}

#[testkit::test]
fn a_cancelled_group_returns_every_task_unrun() {
    let clock = ManualClock::new();
    let pool = pool(&clock, 2, 9);
    let (ran, drops) = (Arc::new(AtomicUsize::new(0)), DropCounter::new());
    let task = || {
        let (ran, captured) = (Arc::clone(&ran), drops.token());
        move || {
            ran.fetch_add(1, SeqCst);
            drop(captured);
            Ok(())
        }
    };
    for group in cancelled(&pool, &clock) {
        let before = pool.stats();
        let refused = [
            group.spawn(task()),
            group.try_spawn(task()),
            group.spawn_timeout(task(), SECOND),
            block_on(group.spawn_async(task())),
            group.submit(task()),
            group.try_submit(task()),
            group.submit_timeout(task(), SECOND),
            block_on(group.submit_async(task())),
            group.task().name("late").spawn(task()),
            group.task().name("late").try_submit(task()),
        ];
        let ours = drops.alive();
        assert_eq!(ours, refused.len());
        for refused in refused {
            let Err(SubmitError::Cancelled(task)) = refused else {
                panic!("{refused:?}");
            };
            drop(task);
        }
        let after = pool.stats();
        assert_eq!(
            (after.submitted, after.refused - before.refused),
            (before.submitted, 10)
        );
        assert!(group.is_empty() && group.wait_ok().is_ok());
    }
    assert_eq!((ran.load(SeqCst), drops.alive()), (0, 0));
}

#[testkit::test]
fn a_loop_that_adds_tasks_ends_after_the_first_failure() {
    let pool = pool(&ManualClock::new(), 2, 2);
    let group = pool.group().cancel_on_failure();
    let refused = (0_u64..).find_map(|n| {
        let task = move || if n == 4 { Err("stop") } else { Ok(n) };
        group.spawn(task).err()
    });
    assert!(matches!(refused, Some(SubmitError::Cancelled(_))));
    assert!(matches!(group.wait_ok(), Err(MapError::Failed("stop"))));
}

#[testkit::test]
fn a_cancel_returns_the_tasks_that_wait_for_room() {
    let clock = ManualClock::new();
    let pool = pool(&clock, 1, 0);
    let gate = hold(&pool, 1);
    let group = pool.group().cancel_at(clock.now() + SECOND);
    let other = pool_core::CancelToken::new();
    thread::scope(|threads| {
        let mut context = Context::from_waker(Waker::noop());
        let mut future = pin!(group.spawn_async(|| 1));
        assert!(future.as_mut().poll(&mut context).is_pending());
        let waits = [
            threads.spawn(|| group.spawn(|| 1).map_err(|it| it.map(drop))),
            threads.spawn(|| group.submit(|| 1).map_err(|it| it.map(drop))),
            threads.spawn(|| {
                let task = group.task().cancelled_by(&other);
                task.spawn(|| 1).map_err(|it| it.map(drop))
            }),
        ];
        until(|| pool.waiting() == 4);
        clock.advance(SECOND);
        for waits in waits {
            let refused = waits.join().unwrap();
            assert!(
                matches!(refused, Err(SubmitError::Cancelled(()))),
                "{refused:?}"
            );
        }
        let refused = future.as_mut().poll(&mut context);
        assert!(matches!(
            refused,
            Poll::Ready(Err(SubmitError::Cancelled(_)))
        ));
    });
    assert!(group.is_empty());
    gate.open();
}

#[testkit::test]
fn a_groups_deadline_stops_its_running_task_although_nothing_waits_in_the_group() {
    let clock = ManualClock::new();
    let pool = pool(&clock, 1, 1);
    let group = pool.group::<()>().cancel_at(clock.now() + SECOND);
    let gate = Gate::new();
    let arrives = gate.clone();
    let task = move || {
        arrives.wait();
        until(|| current().is_cancelled());
    };
    group.submit(task).unwrap();
    group.submit(|| unreachable!("it is cancelled")).unwrap();
    gate.wait_for_arrivals(1);
    gate.open();
    clock.advance(SECOND);
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().cancelled, 1);
    assert!(matches!(group.wait(), Err(JoinError::Cancelled)));
}

/// Spawns a task that runs in place until it is asked to stop, on the only worker and in the caller of a full
/// pool. Calls `stop` when it runs.
fn stops_in_place(
    make: impl Fn(&Pool, &ManualClock) -> TaskGroup<()>,
    stop: impl Fn(&TaskGroup<()>, &ManualClock) + Sync,
) {
    for on_full in [OnFull::Wait(None), OnFull::RunInCaller] {
        for takes_token in [false, true] {
            let clock = ManualClock::new();
            let pool = Pool::builder().capacity(1).queue_depth(0).on_full(on_full);
            let pool = pool.clock(clock.clone()).build().unwrap();
            let (group, gate) = (Arc::new(make(&pool, &clock)), Gate::new());
            let (arrives, ours) = (gate.clone(), Arc::clone(&group));
            let adds = move || {
                let task = move || {
                    let token = takes_token.then(|| current().token());
                    arrives.wait();
                    match token {
                        Some(token) => assert!(token.wait()),
                        None => until(|| current().is_cancelled()),
                    }
                };
                ours.spawn(task).unwrap();
            };
            thread::scope(|threads| {
                let held = if on_full == OnFull::RunInCaller {
                    let held = hold(&pool, 1);
                    threads.spawn(adds);
                    Some(held)
                } else {
                    pool.submit(adds).unwrap();
                    None
                };
                gate.wait_for_arrivals(1);
                assert_eq!(group.len(), 1, "a member before it runs");
                gate.open();
                stop(&group, &clock);
                assert!(group.next().is_some_and(|ended| ended.is_ok()));
                if let Some(held) = held {
                    held.open();
                }
            });
            pool.wait_idle().unwrap();
            let stats = pool.stats();
            assert_eq!(
                (stats.completed, stats.panicked, stats.cancelled),
                (2, 0, 0)
            );
            assert!(group.is_empty());
        }
    }
}

#[testkit::test]
fn cancelling_a_group_stops_a_task_that_its_spawn_runs_in_place() {
    stops_in_place(
        |pool, _| pool.group(),
        |group, _| assert_eq!(group.cancel(), 0),
    );
}

#[testkit::test]
fn a_groups_deadline_stops_a_task_that_its_spawn_runs_in_place() {
    stops_in_place(
        |pool, clock| pool.group().cancel_at(clock.now() + SECOND),
        |_, clock| clock.advance(SECOND),
    );
}

#[testkit::test]
fn the_failure_of_a_sibling_stops_a_task_that_its_spawn_runs_in_place() {
    let pool = pool(&ManualClock::new(), 2, 0);
    let group = Arc::new(pool.group().cancel_on_failure());
    let (fails, gate) = (Gate::new(), Gate::new());
    let held = fails.clone();
    group
        .spawn(move || {
            held.wait();
            Err("failed")
        })
        .unwrap();
    fails.wait_for_arrivals(1);
    let (arrives, ours) = (gate.clone(), Arc::clone(&group));
    let adds = move || {
        let task = move || {
            arrives.wait();
            until(|| current().is_cancelled());
            Ok(())
        };
        ours.spawn(task).unwrap();
    };
    pool.submit(adds).unwrap();
    gate.wait_for_arrivals(1);
    gate.open();
    fails.open();
    pool.wait_idle().unwrap();
    assert!(matches!(group.wait_ok(), Err(MapError::Failed("failed"))));
}

#[testkit::test]
fn the_error_of_a_task_run_in_place_is_the_groups() {
    let pool = pool(&ManualClock::new(), 1, 0);
    let group = Arc::new(pool.group::<()>().cancel_on_error());
    let ours = Arc::clone(&group);
    let later = pool.spawn(move || {
        ours.spawn(|| panic!("in place")).unwrap();
        matches!(ours.submit(|| ()), Err(SubmitError::Cancelled(_)))
    });
    assert!(later.unwrap().join().unwrap());
    assert!(matches!(group.wait(), Err(JoinError::Panicked(_))));
    assert!(group.is_empty());
}

#[testkit::test]
fn a_timed_wait_that_gives_up_keeps_the_first_error_for_the_next_wait() {
    let clock = ManualClock::new();
    let pool = pool(&clock, 1, 9);
    let group = pool.group::<Fallible>();
    group.spawn(|| panic!("first")).unwrap();
    group.spawn(|| panic!("second")).unwrap();
    let gate = Gate::new();
    let held = gate.clone();
    group
        .spawn(move || {
            held.wait();
            Ok(())
        })
        .unwrap();
    gate.wait_for_arrivals(1); // The worker has reported the other two.
    for _ in 0..3 {
        assert!(group.wait_timeout(clock.now()).is_err());
    }
    {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(group.wait_async()).poll(&mut context).is_pending());
        assert!(pin!(group.wait_ok_async()).poll(&mut context).is_pending());
    }
    assert_eq!(group.len(), 1);
    gate.open();
    let waited = group.wait();
    assert!(matches!(waited, Err(JoinError::Panicked(it)) if it.message() == Some("first")));
    assert!(group.wait_ok().is_ok(), "it was returned");
}

#[testkit::test]
fn a_dropped_wait_keeps_the_first_failure_also_if_a_panic_follows() {
    let clock = ManualClock::new();
    let pool = pool(&clock, 1, 9);
    let group = pool.group::<Result<(), String>>();
    let gate = Gate::new();
    let held = gate.clone();
    group.spawn(|| Err(String::from("first"))).unwrap();
    group.spawn(|| panic!("second")).unwrap();
    group
        .spawn(move || {
            held.wait();
            Ok(())
        })
        .unwrap();
    gate.wait_for_arrivals(1);
    {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(group.wait_ok_async()).poll(&mut context).is_pending());
    }
    assert_eq!(group.len(), 1);
    gate.open();
    assert!(matches!(group.wait_ok(), Err(MapError::Failed(it)) if it == "first"));
    assert!(group.wait().is_ok(), "both were taken");
}

#[testkit::test]
fn a_timed_wait_that_gives_up_keeps_the_value_that_has_failed_its_group() {
    let clock = ManualClock::new();
    let pool = pool(&clock, 2, 9);
    let group = pool.group().cancel_on_failure();
    let (fails, gate) = (Gate::new(), Gate::new());
    for (gate, result) in [(&fails, Err("failed")), (&gate, Ok(()))] {
        let gate = gate.clone();
        let task = move || {
            gate.wait();
            result
        };
        group.spawn(task).unwrap();
        // Both run, so the failure cancels neither.
    }
    fails.wait_for_arrivals(1);
    gate.wait_for_arrivals(1);
    fails.open();
    until(|| {
        assert!(group.wait_timeout(clock.now()).is_err());
        group.len() == 1
    });
    gate.open();
    assert!(matches!(group.wait_ok(), Err(MapError::Failed("failed"))));
}

#[testkit::test]
fn the_kept_errors_of_a_group_are_dropped_with_it() {
    let (clock, drops) = (ManualClock::new(), DropCounter::new());
    let pool = pool(&clock, 2, 9);
    let group = pool.group::<Result<(), Counted>>();
    let token = drops.token();
    group.spawn(move || Err(token)).unwrap();
    let gate = Gate::new();
    let held = gate.clone();
    group
        .spawn(move || {
            held.wait();
            Ok(())
        })
        .unwrap();
    gate.wait_for_arrivals(1);
    until(|| {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(group.wait_ok_async()).poll(&mut context).is_pending());
        group.len() == 1
    });
    assert_eq!(drops.alive(), 1);
    drop(group);
    assert_eq!(drops.alive(), 0);
    gate.open();
}

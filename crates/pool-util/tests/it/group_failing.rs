//! Groups with failing tasks and deadlines, and their async calls.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use pool_core::{Clock as _, JoinError, ManualClock, Pool, SubmitError, WaitError, current};
use pool_util::{MapError, PoolExt, TaskGroup};
use testkit::{Gate, block_on};

use crate::support::hold;

const SECOND: Duration = Duration::from_secs(1);

fn pool(capacity: usize, depth: usize) -> Pool {
    let pool = Pool::builder().capacity(capacity).queue_depth(depth);
    pool.build().unwrap()
}

#[testkit::test]
fn the_error_of_a_fallible_task_cancels_the_rest_and_is_returned_by_the_wait() {
    let pool = pool(1, 9);
    let gate = hold(&pool, 1);
    let group = pool.group().cancel_on_failure();
    group.spawn(|| Ok(1)).unwrap();
    group.spawn(|| Err("the second")).unwrap();
    for _ in 0..3 {
        group.spawn(|| unreachable!("it is cancelled")).unwrap();
    }
    gate.open();
    assert!(matches!(
        group.wait_ok(),
        Err(MapError::Failed("the second"))
    ));
    assert_eq!(pool.stats().cancelled, 3);
    let refused = group.spawn(|| unreachable!("it is returned"));
    assert!(matches!(refused, Err(SubmitError::Cancelled(_))));
    assert!(group.next().is_none());
    assert!(matches!(block_on(group.wait_ok_async()), Ok(())));
}

#[testkit::test]
fn the_error_of_a_fallible_task_is_a_value_by_default() {
    let pool = pool(1, 9);
    let group = pool.group().cancel_on_error();
    for result in [Ok(1), Err("first"), Ok(2), Err("second")] {
        group.spawn(move || result).unwrap();
    }
    group.wait().unwrap();
    assert_eq!(pool.stats().cancelled, 0);
    for result in [Ok(1), Err("first"), Ok(2), Err("second")] {
        group.spawn(move || result).unwrap();
    }
    assert!(matches!(
        block_on(group.wait_ok_async()),
        Err(MapError::Failed("first"))
    ));
}

#[testkit::test]
fn spawn_async_into_a_group_waits_for_room() {
    let pool = pool(1, 1);
    let gate = hold(&pool, 1);
    let group = pool.group();
    block_on(group.spawn_async(|| 1)).unwrap();
    {
        let mut second = pin!(group.spawn_async(|| 2));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(group.len(), 1, "it has not found room");
        gate.open();
        block_on(second).unwrap();
    }
    let values: Vec<_> = std::iter::from_fn(|| block_on(group.next_async())).collect();
    assert!(
        values
            .iter()
            .map(|value| value.as_ref().unwrap())
            .eq(&[1, 2])
    );
    pool.release();
    let refused = block_on(group.spawn_async(|| 3));
    assert!(matches!(refused, Err(SubmitError::Released(_))));
    assert!(group.is_empty());
}

#[testkit::test]
fn dropping_a_spawn_future_of_a_group_drops_its_task() {
    let pool = pool(1, 0);
    let gate = hold(&pool, 1);
    let (group, ran) = (pool.group(), Arc::new(AtomicUsize::new(0)));
    {
        let held = Arc::clone(&ran);
        let mut spawned = pin!(group.spawn_async(move || held.fetch_add(1, SeqCst)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(spawned.as_mut().poll(&mut context), Poll::Pending));
    }
    assert_eq!(Arc::strong_count(&ran), 1, "its captures are dropped");
    gate.open();
    pool.wait_idle().unwrap();
    assert!(group.is_empty());
}

#[testkit::test]
fn dropping_a_spawn_future_of_a_group_after_room_came_cancels_its_task() {
    let pool = pool(1, 1);
    let gate = hold(&pool, 1);
    let (group, ran) = (pool.group::<()>(), Arc::new(AtomicUsize::new(0)));
    let add = |ran: &Arc<AtomicUsize>| {
        let ran = Arc::clone(ran);
        move || _ = ran.fetch_add(1, SeqCst)
    };
    let mut context = Context::from_waker(Waker::noop());
    for is_submitted in [false, true] {
        let queued = pool.spawn(|| ()).unwrap();
        let (mut spawned, mut submitted) = (
            Box::pin(group.spawn_async(add(&ran))),
            Box::pin(group.submit_async(add(&ran))),
        );
        if is_submitted {
            assert!(submitted.as_mut().poll(&mut context).is_pending());
        } else {
            assert!(spawned.as_mut().poll(&mut context).is_pending());
        }
        assert!(queued.cancel()); // The task of the group gets its room.
        assert_eq!((pool.waiting(), pool.queued()), (0, 1));
        drop((spawned, submitted));
        assert_eq!(Arc::strong_count(&ran), 1, "its captures are dropped");
        assert_eq!((pool.queued(), group.len()), (0, 0));
    }
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!((ran.load(SeqCst), pool.stats().cancelled), (0, 4));
}

#[testkit::test]
fn dropping_a_spawn_future_of_a_group_asks_a_started_task_to_stop() {
    let pool = pool(1, 0);
    let gate = hold(&pool, 1);
    let (group, started, dropped) = (pool.group::<()>(), Gate::new(), Gate::new());
    let (tell, told) = std::sync::mpsc::channel();
    let (starts, may_end) = (started.clone(), dropped.clone());
    let mut spawned = Box::pin(group.spawn_async(move || {
        starts.wait();
        may_end.wait();
        tell.send(current().is_cancelled()).unwrap();
    }));
    let mut context = Context::from_waker(Waker::noop());
    assert!(spawned.as_mut().poll(&mut context).is_pending());
    gate.open();
    started.wait_for_arrivals(1);
    drop(spawned);
    started.open();
    dropped.open();
    assert!(told.recv().unwrap());
    assert!(group.is_empty());
}

#[testkit::test]
fn invoke_any_async_returns_the_first_success() {
    let pool = pool(2, 1);
    let gate = Gate::new();
    let tasks = [Err("no"), Ok(7)].map(|result| {
        let gate = gate.clone();
        move || {
            if result.is_err() {
                gate.wait();
            }
            result
        }
    });
    // The other task still runs.
    assert_eq!(block_on(pool.invoke_any_async(tasks)).unwrap(), Some(7));
    gate.open();
    let failing = ["first", "last"].map(|error| move || Err::<(), _>(error));
    let pool = self::pool(1, 9);
    assert!(matches!(
        block_on(pool.invoke_any_async(failing)),
        Err(MapError::Failed("last"))
    ));
    let none: [fn() -> Result<(), ()>; 0] = [];
    assert!(matches!(block_on(pool.invoke_any_async(none)), Ok(None)));
    pool.release();
    let refused = block_on(pool.invoke_any_async([|| Ok::<_, ()>(())]));
    assert!(matches!(
        refused,
        Err(MapError::Refused(SubmitError::Released(())))
    ));
}

/// A group of one task that runs until it is asked to stop, and one queued task.
fn endless(clock: &ManualClock) -> (Pool, TaskGroup<bool>) {
    let pool = Pool::builder().capacity(1).queue_depth(9);
    let pool = pool.clock(clock.clone()).build().unwrap();
    let group = pool.group().cancel_at(clock.now() + SECOND);
    let gate = Gate::new();
    let arrives = gate.clone();
    group
        .spawn(move || {
            arrives.wait();
            while !current().is_cancelled() {
                thread::yield_now();
            }
            true
        })
        .unwrap();
    group.spawn(|| unreachable!("it is cancelled")).unwrap();
    gate.wait_for_arrivals(1);
    gate.open();
    (pool, group)
}

#[testkit::test]
fn a_groups_deadline_cancels_unstarted_tasks_and_asks_running_ones_to_stop() {
    let clock = ManualClock::new();
    let (pool, group) = endless(&clock);
    thread::scope(|threads| {
        let waits = threads.spawn(|| [group.next(), group.next()]);
        clock.wait_for_sleepers(1);
        assert_eq!(pool.stats().cancelled, 0);
        clock.advance(SECOND);
        let ended = waits.join().unwrap();
        let values = ended.iter().flatten().filter_map(|it| it.as_ref().ok());
        assert!(values.eq(&[true]));
    });
    assert_eq!(pool.stats().cancelled, 1);
    assert!(group.next().is_none());
    let refused = group.spawn(|| false);
    assert!(matches!(refused, Err(SubmitError::Cancelled(_))));
}

#[testkit::test]
fn a_groups_deadline_ends_futures_and_later_waits() {
    let clock = ManualClock::new();
    let (_pool, group) = endless(&clock);
    let mut context = Context::from_waker(Waker::noop());
    assert!(group.poll_next(&mut context).is_pending());
    clock.advance(SECOND);
    let ended = [block_on(group.next_async()), block_on(group.next_async())];
    let values = ended.iter().flatten().filter_map(|it| it.as_ref().ok());
    assert!(values.eq(&[true]));
    let (_pool, late) = endless(&clock);
    clock.advance(SECOND);
    assert!(matches!(late.wait(), Err(JoinError::Cancelled)));
}

#[testkit::test]
fn a_timed_wait_ends_before_the_groups_later_deadline() {
    let clock = ManualClock::new();
    let (_pool, group) = endless(&clock);
    let half = clock.now() + SECOND / 2;
    thread::scope(|threads| {
        let waits = threads.spawn(|| group.next_timeout(half));
        clock.wait_for_sleepers(1);
        clock.advance(SECOND / 2);
        assert!(matches!(waits.join().unwrap(), Err(WaitError::TimedOut)));
    });
    clock.advance(SECOND / 2);
    assert!(matches!(group.wait(), Err(JoinError::Cancelled)));
}

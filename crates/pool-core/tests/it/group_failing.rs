//! Groups of tasks that may fail, and those of programs that may not block.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use pool_core::{JoinError, MapError, Pool, SubmitError};
use testkit::{Gate, block_on};

use crate::support::{bounded, hold};

fn pool(capacity: usize, depth: usize) -> Pool {
    let pool = Pool::builder().capacity(capacity).queue_depth(depth);
    pool.build().unwrap()
}

#[test]
fn a_tasks_own_error_cancels_the_rest_if_asked_and_is_what_the_wait_says() {
    bounded(|| {
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
            group.try_wait(),
            Err(MapError::Failed("the second"))
        ));
        assert_eq!(pool.stats().cancelled, 3);
        // And what comes later, at once.
        group.spawn(|| unreachable!("it is cancelled")).unwrap();
        assert!(matches!(group.next(), Some(Err(JoinError::Cancelled))));
        assert!(matches!(block_on(group.try_wait_async()), Ok(())));
    });
}

#[test]
fn a_tasks_own_error_is_a_value_if_nothing_else_is_asked() {
    bounded(|| {
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
            block_on(group.try_wait_async()),
            Err(MapError::Failed("first"))
        ));
    });
}

#[test]
fn a_spawn_as_a_future_waits_for_room_and_is_of_the_group_then() {
    bounded(|| {
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
    });
}

#[test]
fn a_spawn_as_a_future_that_is_dropped_takes_its_task_back() {
    bounded(|| {
        let pool = pool(1, 0);
        let gate = hold(&pool, 1);
        let (group, ran) = (pool.group(), Arc::new(AtomicUsize::new(0)));
        {
            let held = Arc::clone(&ran);
            let mut spawned = pin!(group.spawn_async(move || held.fetch_add(1, SeqCst)));
            let mut context = Context::from_waker(Waker::noop());
            assert!(matches!(spawned.as_mut().poll(&mut context), Poll::Pending));
        }
        assert_eq!(Arc::strong_count(&ran), 1, "what it captured is dropped");
        gate.open();
        pool.wait_idle().unwrap();
        assert!(group.is_empty());
    });
}

#[test]
fn of_several_tasks_the_first_that_succeeds_is_taken_as_a_future_too() {
    bounded(|| {
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
        // The other one runs still.
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
    });
}

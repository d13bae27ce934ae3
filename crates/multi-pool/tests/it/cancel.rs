//! Cancelled tasks: their room is free at once, in every pool.

use std::task::Poll;

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt};
use pool_core::{CancelToken, FuncPool, JoinError, Pool, SubmitError};
use pool_util::PoolExt as _;
use testkit::{CountingWaker, Gate};

use crate::support::{end, enter_lines, here, hold_all, poll, poll_with, until};

/// Pools of one held worker and one place in the queue each.
fn held(pools: usize) -> (MultiPool, Vec<Gate>) {
    let each = Pool::builder().capacity(1).queue_depth(1);
    let pool = MultiBuilder::new(each).pools(pools).build().unwrap();
    let gates = hold_all(&pool, pools);
    (pool, gates)
}

#[testkit::test]
fn a_cancel_hands_the_room_to_a_waiter_while_every_worker_is_held() {
    for cancelled in 0..3 {
        let (pool, gates) = held(3);
        let mut queued: Vec<_> = (0..3).map(|_| pool.try_spawn(here).unwrap()).collect();
        let waiter = enter_lines(&pool, |pool| pool.spawn(here));
        let handle = queued.remove(cancelled);
        assert!(handle.cancel() && !handle.cancel());
        let served = waiter.join().unwrap().unwrap(); // No worker has become free.
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
        assert_eq!((pool.waiting(), pool.queued(), pool.in_flight()), (0, 3, 6));
        assert_eq!(pool.stats().cancelled, 1);
        gates.iter().for_each(Gate::open);
        let ran = served.join().unwrap();
        assert_eq!(pool.stats_of(ran).unwrap().cancelled, 1, "it has that room");
        for handle in queued {
            handle.join().unwrap();
        }
        end(&pool);
    }
}

#[testkit::test]
fn a_spawn_of_a_group_that_is_dropped_after_room_came_cancels_the_task_in_the_pool_that_accepted_it()
 {
    for frees in 0..2 {
        let (pool, gates) = held(2);
        let queued: Vec<_> = (0..2).map(|_| pool.try_spawn(here).unwrap()).collect();
        let group = pool.group();
        let mut spawned = Box::pin(group.spawn_async(here));
        assert!(poll(&mut spawned).is_pending());
        assert!(queued[frees].cancel());
        until(|| pool.waiting() == 0); // Its task has the room.
        drop(spawned);
        assert_eq!((pool.queued(), pool.stats().cancelled), (1, 2));
        assert!(group.is_empty());
        gates.iter().for_each(Gate::open);
        end(&pool);
    }
}

#[testkit::test]
fn a_handle_cancels_a_task_in_the_pool_that_accepted_it_from_the_wait_queues() {
    for frees in 0..2 {
        let (pool, gates) = held(2);
        let queued: Vec<_> = (0..2).map(|_| pool.try_spawn(here).unwrap()).collect();
        let mut future = pool.spawn_async(here);
        assert!(poll(&mut future).is_pending());
        let waiter = enter_lines(&pool, |pool| pool.spawn(here));
        assert!(queued[frees].cancel());
        until(|| pool.waiting() == 1); // The future's task has the room.
        let std::task::Poll::Ready(handle) = poll(&mut future) else {
            panic!("its task was accepted");
        };
        assert!(handle.unwrap().cancel());
        let served = waiter.join().unwrap().unwrap(); // The thread's task has room too.
        assert!(served.cancel());
        assert_eq!((pool.queued(), pool.stats().cancelled), (1, 3));
        gates.iter().for_each(Gate::open);
        end(&pool);
    }
}

#[testkit::test]
fn a_task_joined_in_place_frees_its_room_before_it_runs() {
    let each = Pool::builder().capacity(1).queue_depth(1);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let gates = hold_all(&inner, 1); // The other pool's worker.
        let queued: Vec<_> = (0..2)
            .map(|_| {
                let pool = inner.clone();
                let in_its_room = move || until(|| pool.waiting() == 0);
                inner.try_spawn(in_its_room).unwrap()
            })
            .collect();
        for handle in queued {
            let waiter = enter_lines(&inner, |pool| pool.submit(|| ()));
            handle.join().unwrap(); // It ends after the waiter's task has got the room.
            waiter.join().unwrap().unwrap();
        }
        assert_eq!((inner.queued(), inner.in_flight()), (2, 4));
        gates.iter().for_each(Gate::open);
    });
    outer.unwrap().join().unwrap();
    end(&pool);
    let completed = [0, 1].map(|index| pool.stats_of(index).unwrap().completed);
    assert_eq!(completed, [3, 3], "each pool ran its own tasks");
}

#[testkit::test]
fn a_cancelled_argument_frees_its_room_in_its_own_pool() {
    let gate = Gate::new();
    let held = gate.clone();
    let wait = move |waits: bool| {
        if waits {
            held.wait();
        }
    };
    let each = FuncPool::builder(wait).capacity(1).queue_depth(1);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    for workers in 1..=2 {
        pool.try_submit(true).unwrap();
        gate.wait_for_arrivals(workers);
    }
    let queued: Vec<_> = (0..2).map(|_| pool.try_spawn(false).unwrap()).collect();
    for handle in queued.iter().rev() {
        let waiter = enter_lines(&pool, |pool| pool.spawn(false));
        assert!(handle.cancel());
        let served = waiter.join().unwrap().unwrap();
        let mut future = pool.spawn_async(false);
        assert!(poll(&mut future).is_pending());
        assert!(served.cancel());
        assert!(poll(&mut future).is_ready());
    }
    gate.open();
    pool.wait_idle().unwrap();
    let cancelled = [0, 1].map(|index| pool.stats_of(index).unwrap().cancelled);
    assert_eq!(cancelled, [2, 2]);
}

/// The future waits in the wait queues of all pools, and leaves all of them.
#[testkit::test]
fn cancelling_the_token_of_a_waiting_future_removes_it_from_all_wait_queues() {
    for pools in 1..=3 {
        let (pool, gates) = held(pools);
        let queued: Vec<_> = (0..pools).map(|_| pool.try_spawn(here).unwrap()).collect();
        let (token, waker) = (CancelToken::new(), CountingWaker::new());
        let mut future = pool.task().cancelled_by(&token).spawn_async(here);
        assert!(poll_with(&mut future, &waker.waker()).is_pending());
        let behind = enter_lines(&pool, |pool| pool.spawn(here));
        token.cancel();
        assert_eq!(waker.wakes(), 1);
        let given_up = poll(&mut future);
        assert!(matches!(
            given_up,
            Poll::Ready(Err(SubmitError::Cancelled(_)))
        ));
        assert_eq!((pool.waiting(), pool.stats().refused), (1, 1));
        // The first free room goes to the next waiter, in any pool.
        assert!(queued[pools - 1].cancel());
        let served = behind.join().unwrap().unwrap();
        assert_eq!((pool.waiting(), pool.queued()), (0, pools));
        gates.iter().for_each(Gate::open);
        served.join().unwrap();
        end(&pool);
    }
}

//! Permits: the order in which they are granted, and the room they reserve. Their effect on the end
//! of a pool is in `permits_end.rs`.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pool_core::{Clock, FuncPool, ManualClock, Permit, Pool, Reserve, SubmitError, WithinWorker};
use testkit::{CountingWaker, Gate, waker_fn, waker_whose_clone_panics};

use crate::support::{
    Journal, end, enter_line, hold, poll, poll_with, pool, queueing, until, wait_in_line,
};

const SECOND: Duration = Duration::from_secs(1);

/// Tasks in flight, permits in use, and waiters.
fn holders(pool: &Pool) -> (usize, usize, usize) {
    let stats = pool.stats();
    (stats.in_flight, stats.reserved, stats.waiting)
}

#[testkit::test]
fn permits_fill_a_pool() {
    let pool = queueing(1);
    let permits = [pool.reserve().unwrap(), pool.try_reserve().unwrap()];
    assert_eq!(holders(&pool), (0, 2, 0));
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    assert!(matches!(pool.try_reserve(), Err(SubmitError::Full(()))));
    assert_eq!(pool.stats().refused, 2);
    for permit in permits {
        permit.submit(|| ());
    }
    pool.wait_idle().unwrap();
    assert_eq!(holders(&pool), (0, 0, 0));
    assert_eq!(pool.stats().completed, 2);
    end(&pool);
}

#[testkit::test]
fn permits_fill_a_busy_pool() {
    let pool = queueing(1);
    let gate = hold(&pool, 1); // Tasks take the fast path as long as there is room.
    let permit = pool.reserve().unwrap();
    let mut future = pool.submit_async(|| ());
    assert!(poll(&mut future).is_pending());
    assert_eq!(holders(&pool), (1, 1, 1));
    drop(permit);
    assert!(matches!(poll(&mut future), Poll::Ready(Ok(()))));
    gate.open();
    end(&pool);
}

#[testkit::test]
fn a_used_permit_hands_its_room_to_its_task() {
    let pool = pool(1);
    let permit = pool.reserve().unwrap();
    let (gate, held) = (Gate::new(), Gate::new());
    let wait = held.clone();
    let handle = permit.spawn(move || {
        wait.wait();
        7
    });
    held.wait_for_arrivals(1);
    assert_eq!(holders(&pool), (1, 0, 0));
    assert!(matches!(pool.try_reserve(), Err(SubmitError::Full(()))));
    held.open();
    assert_eq!(handle.join().unwrap(), 7);
    pool.try_reserve().unwrap().submit(move || gate.open());
    end(&pool);
}

#[testkit::test]
fn a_permit_of_a_typed_pool_takes_an_argument() {
    let pool = FuncPool::builder(|n: u64| n * n)
        .capacity(1)
        .build()
        .unwrap();
    assert_eq!(pool.reserve().unwrap().spawn(7).join().unwrap(), 49);
    pool.reserve().unwrap().submit(8);
    end(&pool);
}

#[testkit::test]
fn a_permit_dropped_unused_admits_the_first_waiter_at_once() {
    let pool = pool(1);
    let permit = pool.reserve().unwrap();
    let journal = Journal::new();
    let waiter = wait_in_line(&pool, journal.writer("submit"));
    drop(permit);
    waiter.join().unwrap().unwrap();
    pool.wait_idle().unwrap();

    let permit = pool.reserve().unwrap();
    let mut future = pool.reserve_async();
    assert!(poll(&mut future).is_pending());
    drop(permit);
    assert_eq!(holders(&pool), (0, 1, 0), "before it is polled");
    let Poll::Ready(Ok(permit)) = poll(&mut future) else {
        panic!("it was admitted")
    };
    assert!(poll(&mut future).is_pending(), "it was ready once");
    permit.submit(journal.writer("permit"));
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["submit", "permit"]);
    end(&pool);
}

#[testkit::test]
fn two_reservations_of_one_room_succeed_one_after_the_other() {
    let pool = pool(1);
    let first = pool.reserve().unwrap();
    let second = enter_line(&pool, Pool::reserve);
    assert_eq!(holders(&pool), (0, 1, 1));
    drop(first);
    let second = second.join().unwrap().unwrap();
    assert_eq!(holders(&pool), (0, 1, 0));
    drop(second);
    assert_eq!(holders(&pool), (0, 0, 0));
    end(&pool);
}

#[testkit::test]
fn reservations_and_submits_wait_in_one_queue() {
    let (pool, journal) = (pool(1), Journal::new());
    let gate = hold(&pool, 1);
    let first = wait_in_line(&pool, journal.writer("first task"));
    let mut permit = pool.reserve_async();
    assert!(poll(&mut permit).is_pending());
    let mut future = pool.submit_async(journal.writer("second task"));
    assert!(poll(&mut future).is_pending());
    let thread = enter_line(&pool, Pool::reserve);
    gate.open();
    first.join().unwrap().unwrap();
    until(|| pool.stats().reserved == 1);
    assert_eq!(holders(&pool), (0, 1, 2), "the later ones wait for it");
    let Poll::Ready(Ok(permit)) = poll(&mut permit) else {
        panic!("it was admitted")
    };
    permit.submit(journal.writer("permit"));
    let last = thread.join().unwrap().unwrap();
    last.submit(journal.writer("last"));
    pool.wait_idle().unwrap();
    let order = ["first task", "permit", "second task", "last"];
    assert_eq!(journal.entries(), order);
    end(&pool);
}

#[testkit::test]
fn a_reservation_that_times_out_leaves_the_wait_queue() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(1).clock(clock.clone());
    let pool = pool.keep_alive(None).build().unwrap();
    let permit = pool.reserve().unwrap();
    for waits_until_then in [false, true] {
        let when = clock.now() + SECOND;
        let late = enter_line(&pool, move |pool| {
            if waits_until_then {
                pool.reserve_timeout(when)
            } else {
                pool.reserve_timeout(SECOND)
            }
        });
        clock.wait_for_sleepers(1);
        clock.advance(SECOND);
        let refused = late.join().unwrap().unwrap_err();
        assert!(matches!(refused, SubmitError::TimedOut(())), "{refused:?}");
        assert_eq!(holders(&pool), (0, 1, 0));
    }
    drop(permit);
    drop(pool.reserve_timeout(SECOND).unwrap());
    end(&pool);
}

#[testkit::test]
fn dropping_a_reserve_future_in_any_state_leaks_no_room() {
    let pool = pool(1);
    drop(pool.reserve_async()); // Not polled.
    assert_eq!(holders(&pool), (0, 0, 0));

    let permit = pool.reserve().unwrap();
    let mut waiting = pool.reserve_async();
    assert!(poll(&mut waiting).is_pending());
    assert_eq!(holders(&pool), (0, 1, 1));
    drop(waiting);
    assert_eq!(holders(&pool), (0, 1, 0));

    let waker = CountingWaker::new();
    let mut served = pool.reserve_async();
    assert!(poll_with(&mut served, &waker.waker()).is_pending());
    let journal = Journal::new();
    let behind = wait_in_line(&pool, journal.writer("behind"));
    drop(permit);
    waker.wait_for_wakes(1);
    assert_eq!(holders(&pool), (0, 1, 1));
    drop(served); // It has room, and has not been polled since.
    behind.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((holders(&pool), journal.len()), ((0, 0, 0), 1));

    let mut ready = pool.reserve_async();
    assert!(poll(&mut ready).is_ready());
    drop(ready); // The permit was dropped earlier.
    assert_eq!(holders(&pool), (0, 0, 0));

    let permit = pool.reserve().unwrap();
    let mut returned = pool.reserve_async();
    assert!(poll(&mut returned).is_pending());
    pool.release();
    drop(returned); // The release had already woken it.
    drop(permit);
    assert_eq!(holders(&pool), (0, 0, 0));
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_release_refuses_waiting_reservations() {
    let pool = pool(1);
    let permit = pool.reserve().unwrap();
    let mut future = pool.reserve_async();
    assert!(poll(&mut future).is_pending());
    let thread = enter_line(&pool, Pool::reserve);
    pool.release();
    let refused = thread.join().unwrap().unwrap_err();
    assert!(refused.is_released(), "{refused:?}");
    assert!(
        matches!(
            poll(&mut future),
            Poll::Ready(Err(SubmitError::Released(())))
        ),
        "as the thread's"
    );
    assert!(pool.reserve().unwrap_err().is_released());
    drop(permit);
    end(&pool);
}

#[testkit::test]
fn a_waker_that_panics_loses_no_room() {
    let pool = pool(1);
    let permit = pool.reserve().unwrap();
    let mut first = pool.reserve_async();
    let panics = waker_fn(|| panic!("a waker"));
    assert!(poll_with(&mut first, &panics).is_pending());
    drop(permit); // Calls the waker.
    assert_eq!(holders(&pool), (0, 1, 0));
    let Poll::Ready(Ok(permit)) = poll(&mut first) else {
        panic!("it was admitted")
    };

    // A future whose waker panics when cloned keeps its place until the future is dropped.
    let mut second = pool.reserve_async();
    let polled = catch_unwind(AssertUnwindSafe(|| {
        poll_with(&mut second, &waker_whose_clone_panics())
    }));
    assert!(polled.is_err());
    assert_eq!(pool.waiting(), 1);
    drop(permit);
    assert_eq!(holders(&pool), (0, 1, 0));
    drop(second);
    assert_eq!(holders(&pool), (0, 0, 0));
    end(&pool);
}

#[testkit::test]
fn a_permit_is_used_on_another_thread() {
    let pool = pool(1);
    let permit = pool.reserve().unwrap();
    let value = thread::spawn(move || permit.spawn(|| 5).join().unwrap());
    assert_eq!(value.join().unwrap(), 5);
    // Also by a task of the pool, and by a worker of another pool.
    let permit = pool.reserve().unwrap();
    let other = crate::support::pool(1);
    let handle = other.spawn(move || permit.spawn(|| 6)).unwrap();
    assert_eq!(handle.join().unwrap().join().unwrap(), 6);
    end(&pool);
}

#[testkit::test]
fn the_limit_on_waiters_counts_reservations() {
    let pool = Pool::builder().capacity(1).max_waiting(1).build().unwrap();
    let permit = pool.reserve().unwrap();
    let mut first = pool.reserve_async();
    assert!(poll(&mut first).is_pending());
    let refused = pool.reserve().unwrap_err();
    assert!(matches!(refused, SubmitError::Full(())), "{refused:?}");
    let mut second = pool.reserve_async();
    assert!(matches!(
        poll(&mut second),
        Poll::Ready(Err(SubmitError::Full(())))
    ));
    drop((first, permit));
    end(&pool);
}

#[testkit::test]
fn a_nonblocking_pool_refuses_reservations_that_would_wait() {
    let pool = Pool::builder().capacity(1).nonblocking(true);
    let pool = pool.build().unwrap();
    let permit = pool.reserve().unwrap();
    assert!(matches!(pool.reserve(), Err(SubmitError::Full(()))));
    drop(permit);
    drop(Reserve::reserve(&pool).unwrap());
    end(&pool);
}

#[testkit::test]
fn a_reservation_by_an_own_worker_of_a_full_pool_is_refused() {
    for within in [WithinWorker::RunInPlace, WithinWorker::Refuse] {
        let pool = Pool::builder().capacity(1).within_worker(within);
        let pool = pool.build().unwrap();
        let inner = pool.clone();
        let refused = pool.spawn(move || inner.reserve().unwrap_err()).unwrap();
        let refused = refused.join().unwrap();
        assert!(matches!(refused, SubmitError::Full(())), "{refused:?}");
        end(&pool);
    }
}

#[testkit::test]
fn an_own_worker_that_may_block_waits_for_its_permit() {
    let pool = Pool::builder().capacity(2);
    let pool = pool.within_worker(WithinWorker::Block).build().unwrap();
    let gate = hold(&pool, 1);
    let inner = pool.clone();
    let outer = pool.spawn(move || inner.reserve().map(|permit| permit.spawn(|| 3)));
    until(|| pool.waiting() == 1);
    gate.open();
    let handle = outer.unwrap().join().unwrap().unwrap();
    assert_eq!(handle.join().unwrap(), 3);
    end(&pool);
}

#[testkit::test]
fn the_only_worker_joins_a_permits_task_in_place() {
    let pool = queueing(1);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let permit = inner.reserve().unwrap();
        // This task and the permit fill the pool, so a submit runs in place.
        inner.submit(|| ()).unwrap();
        permit.spawn(|| 4).join().unwrap()
    });
    assert_eq!(outer.unwrap().join().unwrap(), 4);
    pool.wait_idle().unwrap();
    assert_eq!(holders(&pool), (0, 0, 0));
    end(&pool);
}

#[testkit::test]
fn no_permit_is_granted_while_the_system_refuses_the_first_worker() {
    let no_more = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&no_more);
    let pool = Pool::builder().capacity(2).thread_gate(move || {
        if asked.load(SeqCst) {
            Err(io::Error::other("no more threads"))
        } else {
            Ok(())
        }
    });
    let pool = pool.build().unwrap();
    let refused = pool.try_reserve().unwrap_err();
    assert!(matches!(refused, SubmitError::NoThread((), _)));
    let mut future = pool.reserve_async();
    assert!(matches!(
        poll(&mut future),
        Poll::Ready(Err(SubmitError::NoThread((), _)))
    ));
    assert_eq!(holders(&pool), (0, 0, 0));

    no_more.store(false, SeqCst);
    let permits = [pool.reserve().unwrap(), pool.reserve().unwrap()];
    no_more.store(true, SeqCst); // No thread can be started for the second task.
    let runs = Arc::new(AtomicUsize::new(0));
    for permit in permits {
        let runs = Arc::clone(&runs);
        permit.submit(move || _ = runs.fetch_add(1, SeqCst));
    }
    pool.wait_idle().unwrap();
    assert_eq!((runs.load(SeqCst), pool.running()), (2, 1));
    end(&pool);
}

#[testkit::test]
fn permits_survive_a_smaller_capacity_and_no_more_are_granted() {
    let pool = pool(3);
    let mut permits: Vec<Permit<_>> = (0..3).map(|_| pool.reserve().unwrap()).collect();
    pool.tune(1).unwrap();
    let mut future = pool.reserve_async();
    assert!(poll(&mut future).is_pending());
    drop(permits.pop());
    drop(permits.pop());
    assert_eq!(
        holders(&pool),
        (0, 1, 1),
        "no more permits than the capacity"
    );
    let last = permits.pop().unwrap();
    last.spawn(|| ()).join().unwrap();
    let Poll::Ready(Ok(permit)) = poll(&mut future) else {
        panic!("there is room")
    };
    let mut other = pool.reserve_async();
    assert!(poll(&mut other).is_pending());
    pool.tune(2).unwrap();
    let Poll::Ready(Ok(other)) = poll(&mut other) else {
        panic!("there is room now")
    };
    drop((permit, other));
    end(&pool);
}

#[testkit::test]
fn threads_that_reserve_and_drop_and_submit_lose_neither_room_nor_task() {
    const THREADS: usize = 16;
    const ROUNDS: usize = 300;
    let pool = Pool::builder().capacity(2).queue_depth(1).build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (pool, runs) = (pool.clone(), Arc::clone(&runs));
            thread::spawn(move || {
                let mut made = 0;
                for round in 0..ROUNDS {
                    let runs = Arc::clone(&runs);
                    let task = move || _ = runs.fetch_add(1, SeqCst);
                    match (number + round) % 5 {
                        0 => drop(pool.reserve().unwrap()),
                        1 => pool.reserve().unwrap().submit(task),
                        2 => pool.submit(task).unwrap(),
                        3 => {
                            let mut future = pool.reserve_async();
                            let _ = poll(&mut future); // Dropped in whichever state it has reached.
                        }
                        _ => {
                            let permit = testkit::block_on(pool.reserve_async()).unwrap();
                            permit.spawn(task).join().unwrap();
                        }
                    }
                    made += usize::from(matches!((number + round) % 5, 1 | 2 | 4));
                }
                made
            })
        })
        .collect();
    let made: usize = threads.into_iter().map(|made| made.join().unwrap()).sum();
    pool.wait_idle().unwrap();
    assert_eq!((holders(&pool), runs.load(SeqCst)), ((0, 0, 0), made));
    end(&pool);
}

//! Waits for the first pool that has room.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt};
use pool_core::{CancelToken, Clock, FuncPool, ManualClock, Pool, SubmitError};
use testkit::{CountingWaker, DropCounter, Gate, waker_fn, waker_whose_clone_panics};

use crate::support::{
    Journal, end, enter_lines, here, hold, hold_all, multi, poll, poll_with, until,
};

const SECOND: Duration = Duration::from_secs(1);

/// Whether no submitter waits and no entry is left in a wait queue.
fn lines_are_empty(pool: &MultiPool) -> bool {
    pool.waiting() == 0 && (0..pool.pools()).all(|index| pool.waiting_of(index) == Ok(0))
}

#[testkit::test]
fn a_busy_pool_delays_no_waiter_while_another_pool_frees_room() {
    for frees in 0..3 {
        let pool = multi(3, 1);
        let gates = hold_all(&pool, 3);
        let waiter = enter_lines(&pool, |pool| pool.submit(|| ()));
        gates[frees].open();
        waiter.join().unwrap().unwrap();
        until(|| pool.in_flight() == 2);
        assert_eq!(pool.stats_of(frees).unwrap().completed, 2);
        assert!(lines_are_empty(&pool), "the others are still held");
        gates.iter().for_each(Gate::open);
        end(&pool);
    }
}

#[testkit::test]
fn threads_and_futures_get_room_of_any_pool_in_order() {
    let pool = multi(2, 1);
    let gates = hold_all(&pool, 2);
    let journal = Journal::new();
    let (mut threads, mut futures) = (Vec::new(), Vec::new());
    for number in 0..10 {
        let task = journal.writer(number);
        if number % 2 == 0 {
            threads.push(enter_lines(&pool, move |pool| pool.submit(task)));
        } else {
            let mut future = pool.submit_async(task);
            assert!(poll(&mut future).is_pending());
            futures.push(future);
        }
        assert_eq!(pool.waiting(), number + 1);
    }
    gates[1].open(); // The other pool never has room.
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    until(|| pool.stats().completed == 11);
    assert!(journal.entries().into_iter().eq(0..10));
    assert_eq!(pool.waiting(), 0);
    for mut future in futures {
        assert!(matches!(poll(&mut future), Poll::Ready(Ok(()))));
    }
    assert!(lines_are_empty(&pool));
    gates[0].open();
    end(&pool);
}

#[testkit::test]
fn no_submit_overtakes_a_waiter_in_any_pool() {
    let pool = multi(2, 1);
    for round in 0..200 {
        let gates = hold_all(&pool, 2);
        let next = Gate::new();
        let task = next.clone();
        let waiter = enter_lines(&pool, move |pool| pool.submit(move || task.wait()));
        gates[round % 2].open();
        next.wait_for_arrivals(1);
        // The waiter already holds the room, although it may not have noticed.
        assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
        waiter.join().unwrap().unwrap();
        next.open();
        gates.iter().for_each(Gate::open);
        pool.wait_idle().unwrap();
    }
}

#[testkit::test]
fn two_pools_that_free_room_at_once_admit_a_waiter_once_and_lose_no_room() {
    let pool = multi(2, 1);
    let journal = Journal::new();
    for round in 0..300 {
        let gates = hold_all(&pool, 2);
        let task = journal.writer(round);
        let waiter = enter_lines(&pool, move |pool| pool.submit(task));
        let openers: Vec<_> = gates
            .into_iter()
            .map(|gate| thread::spawn(move || gate.open()))
            .collect();
        waiter.join().unwrap().unwrap();
        for opener in openers {
            opener.join().unwrap();
        }
        pool.wait_idle().unwrap();
        assert!(lines_are_empty(&pool));
    }
    assert!(journal.entries().into_iter().eq(0..300));
    assert_eq!(pool.stats().completed, 900);
}

#[testkit::test]
fn the_limit_on_waiters_is_for_all_pools_together() {
    let each = Pool::builder().capacity(1).max_waiting(2);
    let pool = MultiBuilder::new(each).pools(3).build().unwrap();
    let gates = hold_all(&pool, 3);
    let journal = Journal::new();
    let task = journal.writer("thread");
    let thread = enter_lines(&pool, move |pool| pool.submit(task));
    let mut leaves = pool.submit_async(journal.writer("left"));
    assert!(poll(&mut leaves).is_pending());
    assert_eq!((pool.waiting(), pool.stats().waiting), (2, 2));
    assert_eq!(pool.waiting_of(1), Ok(2));
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    let refused = poll(&mut pool.submit_async(|| ()));
    assert!(matches!(refused, Poll::Ready(Err(SubmitError::Full(_)))));
    drop(leaves); // One more submitter may wait.
    let task = journal.writer("second");
    let second = enter_lines(&pool, move |pool| pool.submit(task));
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    gates[1].open();
    thread.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
    assert!(lines_are_empty(&pool));
    gates.iter().for_each(Gate::open);
    end(&pool);
    assert_eq!(journal.entries(), ["thread", "second"]);
    assert_eq!(pool.stats().refused, 4);
}

#[testkit::test]
fn with_a_limit_of_zero_waiters_every_wait_is_refused() {
    let each = Pool::builder().capacity(1).max_waiting(0);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let gates = hold_all(&pool, 2);
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    gates.iter().for_each(Gate::open);
}

#[testkit::test]
fn a_nonblocking_multi_pool_refuses_if_every_pool_is_full_unless_a_time_is_given() {
    let clock = ManualClock::new();
    let each = Pool::builder()
        .capacity(1)
        .nonblocking(true)
        .keep_alive(None);
    let builder = MultiBuilder::new(each.clock(clock.clone())).pools(2);
    let pool = builder.build().unwrap();
    let gates = hold_all(&pool, 2);
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    assert!(matches!(pool.spawn(|| ()), Err(SubmitError::Full(_))));
    let waiter = enter_lines(&pool, |pool| pool.submit_timeout(|| (), SECOND));
    gates[1].open();
    waiter.join().unwrap().unwrap();
    gates[0].open();
    end(&pool);
}

#[testkit::test]
fn a_submit_that_times_out_leaves_every_wait_queue_and_returns_its_task() {
    let clock = ManualClock::new();
    let each = Pool::builder().capacity(1).keep_alive(None);
    let builder = MultiBuilder::new(each.clock(clock.clone())).pools(3);
    let pool = builder.build().unwrap();
    let gates = hold_all(&pool, 3);
    let waiters = [
        enter_lines(&pool, |pool| {
            pool.submit_timeout(|| (), SECOND).unwrap_err().is_full()
        }),
        enter_lines(&pool, |pool| {
            let refused = pool.spawn_timeout(|| 7, SECOND).map(drop);
            matches!(refused, Err(SubmitError::TimedOut(task)) if task() == 7)
        }),
    ];
    clock.wait_for_sleepers(2);
    let patient = enter_lines(&pool, |pool| pool.submit_timeout(|| (), 2 * SECOND));
    clock.wait_for_sleepers(3);
    clock.advance(SECOND);
    for waiter in waiters {
        assert!(waiter.join().unwrap());
    }
    assert_eq!((pool.waiting(), pool.waiting_of(2)), (1, Ok(1)));
    assert_eq!(pool.stats().refused, 2);
    gates[2].open();
    patient.join().unwrap().unwrap();
    assert!(lines_are_empty(&pool));
    gates.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn an_unpolled_future_gets_room_in_its_turn_and_delays_no_waiter() {
    let pool = multi(2, 1);
    let gates = hold_all(&pool, 2);
    let journal = Journal::new();
    let mut future = pool.submit_async(journal.writer("future"));
    assert!(poll(&mut future).is_pending());
    let task = journal.writer("thread");
    let thread = enter_lines(&pool, move |pool| pool.submit(task));
    gates[0].open();
    thread.join().unwrap().unwrap();
    assert_eq!(pool.waiting(), 0);
    gates[1].open(); // Finds the entry of the dropped future, and skips it.
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["future", "thread"]);
    assert!(lines_are_empty(&pool));
    drop(future);
    assert_eq!((pool.stats().completed, pool.stats().refused), (4, 0));
}

#[testkit::test]
fn dropping_a_future_removes_its_task_from_every_wait_queue() {
    let pool = multi(2, 1);
    let gates = hold_all(&pool, 2);
    let drops = DropCounter::new();
    let token = drops.token();
    let mut future = pool.submit_async(move || drop(token));
    assert!(poll(&mut future).is_pending());
    assert_eq!((drops.alive(), pool.waiting()), (1, 1));
    drop(future);
    assert_eq!((drops.alive(), pool.stats().refused), (0, 1));
    assert!(lines_are_empty(&pool));
    gates.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn only_the_waker_of_the_last_poll_is_called_and_only_once() {
    let pool = multi(2, 1);
    let gates = hold_all(&pool, 2);
    let (first, last) = (CountingWaker::new(), CountingWaker::new());
    let mut future = pool.submit_async(|| ());
    assert!(poll_with(&mut future, &first.waker()).is_pending());
    assert!(poll_with(&mut future, &last.waker()).is_pending());
    gates.iter().for_each(Gate::open);
    pool.wait_idle().unwrap();
    until(|| last.wakes() > 0);
    end(&pool);
    assert_eq!((first.wakes(), last.wakes()), (0, 1));
    assert!(matches!(poll(&mut future), Poll::Ready(Ok(()))));
}

#[testkit::test]
fn an_unpolled_future_has_no_effect() {
    let pool = multi(2, 1);
    drop(pool.submit_async(|| ()));
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.refused, stats.live), (0, 0, 0));
}

#[testkit::test]
fn more_capacity_in_each_pool_admits_a_waiter_for_each() {
    let pool = multi(2, 1);
    let gates = hold_all(&pool, 2);
    let journal = Journal::new();
    let waiters: Vec<_> = (0..3)
        .map(|number| {
            let task = journal.writer(number);
            enter_lines(&pool, move |pool| pool.submit(task))
        })
        .collect();
    let last = Gate::new();
    let held = last.clone();
    let future = &mut pool.submit_async(move || held.wait());
    assert!(poll(future).is_pending());
    pool.tune(2).unwrap();
    for waiter in waiters {
        waiter.join().unwrap().unwrap();
    }
    last.wait_for_arrivals(1);
    assert_eq!(pool.running(), 4);
    last.open();
    gates.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn a_release_returns_the_task_of_every_waiter_once() {
    let pool = multi(3, 1);
    let gates = hold_all(&pool, 3);
    let journal = Journal::new();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let task = journal.writer(number);
            enter_lines(&pool, move |pool| pool.submit(task))
        })
        .collect();
    let mut future = pool.submit_async(journal.writer(4));
    assert!(poll(&mut future).is_pending());
    assert!(pool.release());
    for thread in threads {
        let back = thread.join().unwrap().unwrap_err();
        assert!(back.is_released());
        back.into_task()();
    }
    let Poll::Ready(Err(SubmitError::Released(task))) = poll(&mut future) else {
        panic!("a released future is ready");
    };
    task();
    assert_eq!((pool.waiting(), pool.stats().refused), (0, 5));
    gates.iter().for_each(Gate::open);
    pool.wait_released().unwrap();
    assert!(journal.entries().into_iter().eq(0..5));
    assert_eq!(
        pool.stats().completed,
        3,
        "only the held ones ran in the pools"
    );
}

#[testkit::test]
fn a_waiting_argument_is_returned_unchanged() {
    let gate = Gate::new();
    let shut = gate.clone();
    let each = FuncPool::builder(move |_: Arc<str>| shut.wait()).capacity(1);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    (0..2).for_each(|_| pool.submit("held".into()).unwrap());
    gate.wait_for_arrivals(2);
    let thread = enter_lines(&pool, |pool| pool.spawn("thread".into()));
    let mut future = pool.spawn_async("future".into());
    assert!(poll(&mut future).is_pending());
    pool.release();
    assert_eq!(&*thread.join().unwrap().unwrap_err().into_task(), "thread");
    let Poll::Ready(Err(refused)) = poll_with(&mut future, Waker::noop()) else {
        panic!("a released future is ready");
    };
    assert_eq!(&*refused.into_task(), "future");
    gate.open();
    end(&pool);
}

#[testkit::test]
fn a_waiter_whose_token_is_cancelled_leaves_every_wait_queue_and_returns_its_task() {
    let clock = ManualClock::new();
    let each = Pool::builder().capacity(1).clock(clock.clone());
    let pool = MultiBuilder::new(each).pools(3).build().unwrap();
    let (gates, token) = (hold_all(&pool, 3), CancelToken::new());
    let in_time = clock.now() + SECOND;
    let waiters = [token.clone(), token.child()].map(|token| {
        enter_lines(&pool, move |pool| {
            let task = pool.task().cancelled_by(&token).start_before(in_time);
            task.submit(|| 7)
        })
    });
    let behind = enter_lines(&pool, |pool| pool.spawn(here));
    assert!(token.cancel()); // No room has become free, and the timeout has not passed.
    for waiter in waiters {
        let Err(SubmitError::Cancelled(task)) = waiter.join().unwrap() else {
            panic!("its token was cancelled");
        };
        assert_eq!(task(), 7);
    }
    assert_eq!((pool.waiting(), pool.stats().refused), (1, 2));
    assert!((0..3).all(|index| pool.waiting_of(index) == Ok(1)));
    gates[1].open();
    assert_eq!(behind.join().unwrap().unwrap().join().unwrap(), 1);
    gates.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn an_admitted_waiter_can_wait_again_at_once() {
    let pool = multi(2, 1);
    let gate = hold(&pool); // One pool is never free.
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            thread::spawn(move || (0..500).for_each(|_| pool.submit(|| ()).unwrap()))
        })
        .collect();
    for producer in producers {
        producer.join().unwrap();
    }
    assert!(lines_are_empty(&pool));
    gate.open();
    end(&pool);
    assert_eq!(pool.stats().completed, 2001);
}

#[testkit::test]
fn a_waker_called_by_one_pools_tuning_does_not_delay_the_other_pools_waiters() {
    let (clock, served) = (ManualClock::new(), Gate::new());
    let each = Pool::builder().capacity(1).clock(clock.clone());
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let gates = hold_all(&pool, 2);
    let mut entering = pool.submit_async(|| ());
    let waiting = served.clone();
    assert!(poll_with(&mut entering, &waker_fn(move || waiting.wait())).is_pending());
    let waiter = {
        let (pool, served) = (pool.clone(), served.clone());
        thread::spawn(move || {
            pool.submit_timeout(|| (), SECOND).unwrap();
            served.open();
        })
    };
    clock.wait_for_sleepers(1); // It sleeps.
    // The first pool admits the future's task. The second admits the thread's task, for which the
    // waker waits.
    pool.tune(2).unwrap();
    waiter.join().unwrap();
    assert!(poll(&mut entering).is_ready());
    gates.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn dropping_a_future_whose_wakers_clone_panicked_removes_its_task() {
    let (pool, drops) = (multi(2, 1), DropCounter::new());
    let gates = hold_all(&pool, 2);
    let token = drops.token();
    let mut entering = pool.submit_async(move || drop(token));
    let polls = |entering: &mut _| {
        catch_unwind(AssertUnwindSafe(|| {
            poll_with(entering, &waker_whose_clone_panics())
        }))
    };
    assert!(polls(&mut entering).is_err());
    assert_eq!(
        (pool.waiting(), drops.alive()),
        (1, 1),
        "it has its places, and no waker yet"
    );
    assert!(poll(&mut entering).is_pending());
    assert!(polls(&mut entering).is_err());
    assert_eq!(
        (pool.waiting(), drops.alive()),
        (1, 1),
        "it keeps its places"
    );
    drop(entering);
    assert!(lines_are_empty(&pool) && drops.alive() == 0);
    gates.iter().for_each(Gate::open);
    end(&pool);
}

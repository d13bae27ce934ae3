//! Keyed tasks: those of one key run in order and one at a time, and those of other keys
//! concurrently.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Instant;

use pool_core::{CancelToken, DropPolicy, JoinError, Pool, QueueDepth, SubmitError, WithinWorker};
use pool_util::{Keyed, PoolExt};
use sync_shim::thread::SystemThread;
use testkit::{Gate, waker_fn};

use crate::support::{Journal, end, enter_line, poll, queueing, until};

fn wide(capacity: usize) -> Pool {
    let depth = QueueDepth::Unlimited;
    let pool = Pool::builder().capacity(capacity).queue_depth(depth);
    pool.build().unwrap()
}

/// A task that holds its worker until the gate is opened.
fn hold<K: std::hash::Hash + Eq + Send + 'static>(keyed: &Keyed<K>, key: K) -> Gate {
    let gate = Gate::new();
    let wait = gate.clone();
    keyed.try_submit(key, move || wait.wait()).unwrap();
    gate.wait_for_arrivals(1);
    gate
}

#[testkit::test]
fn tasks_of_a_key_run_in_order_and_those_of_other_keys_concurrently() {
    let (pool, journal) = (wide(2), Journal::new());
    let keyed = pool.keyed();
    let gate = hold(&keyed, "slow");
    for n in 0..100 {
        keyed.submit("slow", journal.writer(("slow", n))).unwrap();
    }
    for n in 0..100 {
        keyed.submit("quick", journal.writer(("quick", n))).unwrap();
    }
    // The slow key holds one worker, and leaves the other one free.
    until(|| journal.len() == 100);
    let quick: Vec<_> = (0..100).map(|n| ("quick", n)).collect();
    assert_eq!(journal.entries(), quick);
    gate.open();
    pool.wait_idle().unwrap();
    let slow: Vec<_> = (0..100).map(|n| ("slow", n)).collect();
    assert_eq!(journal.entries()[100..], slow);
    assert_eq!(keyed.keys(), 0);
    end(&pool);
}

#[testkit::test]
fn the_end_of_a_keyed_task_frees_room_although_the_next_starts_at_once() {
    let pool = Pool::builder().capacity(1).queue_depth(2).build().unwrap();
    let (keyed, gates) = (pool.keyed(), [Gate::new(), Gate::new()]);
    let [first, next] = gates.clone().map(|gate| move || gate.wait());
    let first = keyed.spawn(1, first).unwrap();
    gates[0].wait_for_arrivals(1);
    keyed.submit(1, next).unwrap();
    // Two tasks wait, so that a permit is left when the next task has used its own.
    keyed.submit(1, || ()).unwrap();
    // Takes the full section, after which a call that does not wait is refused without the lock.
    assert!(pool.try_submit(|| ()).unwrap_err().is_full());
    gates[0].open();
    first.join().unwrap();
    gates[1].wait_for_arrivals(1);
    pool.try_submit(|| ()).unwrap();
    gates[1].open();
    pool.wait_idle().unwrap();
    end(&pool);
}

#[testkit::test]
fn many_submitters_keep_the_order_of_each_key_and_run_one_task_at_a_time() {
    const KEYS: usize = 7;
    const TASKS: usize = 2_000;
    let pool = Pool::builder().capacity(4).queue_depth(9).build().unwrap();
    let keyed = pool.keyed::<usize>();
    let running: Arc<[AtomicUsize; KEYS]> = Arc::default();
    let seen = Arc::new(Mutex::new(HashMap::<(usize, usize), usize>::new()));
    thread::scope(|threads| {
        for submitter in 0..4 {
            let (keyed, running, seen) = (keyed.clone(), &running, &seen);
            threads.spawn(move || {
                for n in 0..TASKS {
                    let key = (n * (submitter + 1)) % KEYS;
                    let (running, seen) = (Arc::clone(running), Arc::clone(seen));
                    let task = move || {
                        assert_eq!(running[key].fetch_add(1, SeqCst), 0, "one at a time");
                        let before = seen.lock().unwrap().insert((submitter, key), n);
                        assert!(before < Some(n), "in order");
                        running[key].fetch_sub(1, SeqCst);
                    };
                    keyed.submit(key, task).unwrap();
                }
            });
        }
    });
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.panicked, stats.reserved, keyed.keys()), (0, 0, 0));
    assert_eq!((stats.submitted, stats.completed), (8_000, 8_000));
    end(&pool);
}

#[testkit::test]
fn tasks_waiting_behind_a_key_hold_room_of_the_pool() {
    let (pool, journal) = (queueing(3), Journal::new());
    let keyed = pool.keyed();
    let gate = hold(&keyed, 1);
    for n in 0..3 {
        keyed.try_submit(1, journal.writer(n)).unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.in_flight, stats.reserved, stats.queued), (1, 3, 0));
    let refused = keyed.try_submit(1, || ()).unwrap_err();
    assert!(matches!(&refused, SubmitError::Full((1, _))));
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    // A waiting task runs after them, because the pool has one wait queue.
    let (ours, later) = (keyed.clone(), journal.writer(3));
    let waits = enter_line(&pool, move |_| ours.submit(1, later));
    gate.open();
    waits.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), [0, 1, 2, 3]);
    assert_eq!(pool.stats().reserved, 0);
    end(&pool);
}

#[testkit::test]
fn a_long_lane_lets_queued_tasks_run_in_between() {
    let (pool, journal) = (wide(1), Journal::new());
    let keyed = pool.keyed();
    let gate = hold(&keyed, 'a');
    for n in 0..100 {
        keyed.submit('a', journal.writer(n)).unwrap();
    }
    pool.submit(journal.writer(1_000)).unwrap();
    gate.open();
    pool.wait_idle().unwrap();
    let entries = journal.entries();
    let other = entries.iter().position(|&n| n == 1_000).unwrap();
    assert!(other < 10, "after {other}");
    let rest: Vec<_> = entries.into_iter().filter(|&n| n < 1_000).collect();
    assert!(rest.into_iter().eq(0..100));
    end(&pool);
}

#[testkit::test]
fn a_panic_of_a_keyed_task_does_not_stop_its_key_and_is_returned_by_the_handle() {
    let pool = wide(1);
    let keyed = pool.keyed();
    let gate = hold(&keyed, ());
    let first = keyed.spawn((), || panic!("first")).unwrap();
    keyed.submit((), || panic!("second")).unwrap();
    let third = keyed.spawn((), || 3).unwrap();
    gate.open();
    let first: Result<(), _> = first.join();
    assert!(matches!(first, Err(JoinError::Panicked(it)) if it.message() == Some("first")));
    assert_eq!(third.join().unwrap(), 3);
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.panicked, stats.completed), (2, 2));
    end(&pool);
}

#[testkit::test]
fn a_cancelled_keyed_task_is_dropped_at_once_and_its_room_is_free_at_its_turn() {
    let (pool, kept) = (queueing(2), Arc::new(()));
    let keyed = pool.keyed();
    let gate = hold(&keyed, 5);
    let held = Arc::clone(&kept);
    let cancelled = keyed.spawn(5, move || drop(held)).unwrap();
    let last = keyed.spawn(5, || 7).unwrap();
    assert!(cancelled.cancel() && !cancelled.cancel());
    assert_eq!((Arc::strong_count(&kept), pool.stats().reserved), (1, 2));
    assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
    gate.open();
    assert_eq!(last.join().unwrap(), 7);
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.cancelled, stats.completed, stats.reserved),
        (1, 2, 0)
    );
    end(&pool);
}

#[testkit::test]
fn a_full_pool_refuses_a_keyed_task_of_its_own_worker_and_returns_key_and_task() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let keyed = pool.keyed::<String>();
    let inner = keyed.clone();
    let refused = keyed.spawn("a".into(), move || {
        let refused = inner.submit("b".into(), || 1).unwrap_err();
        assert!(refused.is_full());
        let (key, task) = refused.into_task();
        (key, task(), inner.keys())
    });
    assert_eq!(refused.unwrap().join().unwrap(), ("b".into(), 1, 1));
    end(&pool);
}

#[testkit::test]
fn a_worker_that_joins_a_task_of_its_own_key_is_refused_and_the_task_runs() {
    let (pool, journal) = (wide(1), Journal::new());
    let keyed = pool.keyed();
    let (inner, later) = (keyed.clone(), journal.writer(2));
    let outer = keyed.spawn("a", move || inner.spawn("a", later).unwrap().join());
    let joined = outer.unwrap().join().unwrap();
    assert!(matches!(joined, Err(JoinError::WouldDeadlock)));
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), [2]);
    end(&pool);
}

#[testkit::test]
fn a_task_that_blocks_for_room_on_its_own_worker_gets_it_when_another_ends() {
    let pool = Pool::builder().capacity(2);
    let pool = pool.within_worker(WithinWorker::Block).build().unwrap();
    let keyed = pool.keyed();
    let gate = hold(&keyed, 0);
    let inner = keyed.clone();
    let outer = keyed
        .spawn(1, move || inner.spawn(0, || 6).unwrap())
        .unwrap();
    until(|| pool.waiting() == 1);
    gate.open();
    assert_eq!(outer.join().unwrap().join().unwrap(), 6);
    end(&pool);
}

#[testkit::test]
fn a_release_runs_tasks_that_wait_behind_a_key() {
    let (pool, journal) = (wide(2), Journal::new());
    let keyed = pool.keyed();
    let gate = hold(&keyed, 1);
    (0..20).for_each(|n| keyed.submit(1, journal.writer(n)).unwrap());
    assert!(pool.release());
    assert!(keyed.submit(2, || ()).unwrap_err().is_released());
    gate.open();
    pool.wait_released().unwrap();
    assert!(journal.entries().into_iter().eq(0..20));
}

#[testkit::test]
fn release_now_drops_the_tasks_of_a_queued_turn_and_of_its_lane() {
    let (pool, kept) = (wide(1), Arc::new(()));
    let keyed = pool.keyed();
    let spawn = || {
        let kept = Arc::clone(&kept);
        keyed.spawn("key", move || drop(kept)).unwrap()
    };
    let (before, between) = (Gate::new(), Gate::new());
    let (first, second) = (before.clone(), between.clone());
    pool.submit(move || first.wait()).unwrap();
    let early: Vec<_> = (0..10).map(|_| spawn()).collect();
    pool.submit(move || second.wait()).unwrap();
    before.open();
    between.wait_for_arrivals(1);
    // The turn is in the queue again, with the tasks that it has taken from the lane.
    let late = [spawn(), spawn()];
    let ran = early.iter().filter(|handle| handle.is_finished()).count();
    assert!((1..10).contains(&ran), "{ran}");
    assert_eq!(pool.release_now(), 1, "one for each key in the queue");
    let unrun = early.into_iter().skip(ran).chain(late);
    for handle in unrun {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    between.open();
    pool.wait_released().unwrap();
    assert_eq!((Arc::strong_count(&kept), keyed.keys()), (1, 0));
    let stats = pool.stats();
    assert_eq!((stats.reserved, stats.in_flight), (0, 0));
    let ran = ran as u64 + 2;
    assert_eq!(
        (stats.submitted, stats.completed, stats.released),
        (14, ran, 14 - ran)
    );
}

#[testkit::test]
fn release_now_drops_tasks_behind_queued_and_running_turns() {
    let (pool, kept) = (wide(1), Arc::new(()));
    let keyed = pool.keyed();
    let gate = hold(&keyed, "runs");
    let task = || {
        let kept = Arc::clone(&kept);
        move || drop(kept)
    };
    let behind: Vec<_> = (0..3)
        .map(|_| keyed.spawn("runs", task()).unwrap())
        .collect();
    let queued: Vec<_> = (0..3)
        .map(|_| keyed.spawn("queued", task()).unwrap())
        .collect();
    assert!(queued[1].cancel());
    assert_eq!(pool.release_now(), 1, "one for each key in the queue");
    let ends: Vec<_> = queued
        .into_iter()
        .map(|it| it.join().unwrap_err())
        .collect();
    assert!(
        matches!(
            ends[..],
            [
                JoinError::Released,
                JoinError::Cancelled,
                JoinError::Released
            ]
        ),
        "{ends:?}"
    );
    gate.open();
    for handle in behind {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    pool.wait_released().unwrap();
    assert_eq!((Arc::strong_count(&kept), keyed.keys()), (1, 0));
    let stats = pool.stats();
    assert_eq!((stats.reserved, stats.in_flight), (0, 0));
    let ends = (stats.completed, stats.released, stats.cancelled);
    assert_eq!((stats.submitted, ends), (7, (1, 5, 1)));
}

#[testkit::test]
fn keyed_futures_wait_for_room_and_drop_key_and_task() {
    let (pool, kept) = (queueing(0), Arc::new(()));
    let keyed = pool.keyed();
    let gate = hold(&keyed, Arc::clone(&kept));
    let held = Arc::clone(&kept);
    let dropped = keyed.submit_async(Arc::clone(&kept), move || drop(held));
    let mut dropped = Box::pin(dropped);
    assert!(poll(&mut dropped).is_pending());
    assert_eq!((pool.waiting(), Arc::strong_count(&kept)), (1, 4));
    drop(dropped);
    assert_eq!((pool.waiting(), Arc::strong_count(&kept)), (0, 2));
    let mut spawned = Box::pin(keyed.spawn_async(Arc::new(()), || 9));
    assert!(poll(&mut spawned).is_pending());
    gate.open();
    let handle = loop {
        if let Poll::Ready(handle) = poll(&mut spawned) {
            break handle.unwrap();
        }
        thread::yield_now();
    };
    assert_eq!(handle.join().unwrap(), 9);
    pool.wait_idle().unwrap();
    end(&pool);
}

#[testkit::test]
fn a_future_that_awaits_a_keyed_task_is_woken_while_another_worker_runs_the_next() {
    let (pool, gate) = (wide(2), Gate::new());
    let keyed = pool.keyed();
    let first = hold(&keyed, 1);
    let held = keyed.spawn(1, || ()).unwrap();
    let next = keyed.spawn(1, || 3).unwrap();
    let wait = gate.clone();
    let waker = waker_fn(move || wait.wait());
    let mut held = held;
    assert!(crate::support::poll_with(&mut held, &waker).is_pending());
    first.open();
    // The waker holds a worker, and does not hold the key.
    gate.wait_for_arrivals(1);
    assert_eq!(next.join().unwrap(), 3);
    gate.open();
    pool.wait_idle().unwrap();
    end(&pool);
}

#[testkit::test]
fn equal_keys_of_two_keyed_handles_are_independent() {
    let pool = wide(2);
    let (one, two) = (pool.keyed(), pool.keyed());
    let gate = hold(&one, 1);
    assert_eq!(two.spawn(1, || 5).unwrap().join().unwrap(), 5);
    assert_eq!((one.keys(), two.keys()), (1, 0));
    gate.open();
    pool.wait_idle().unwrap();
    end(&pool);
}

#[testkit::test]
fn dropping_the_last_keyed_handle_runs_accepted_tasks() {
    let (pool, journal) = (wide(1), Journal::new());
    let (weak, keyed) = (pool.downgrade(), pool.keyed());
    let gate = hold(&keyed, 1);
    (0..20).for_each(|n| keyed.submit(1, journal.writer(n)).unwrap());
    drop(pool);
    assert!(weak.upgrade().is_some(), "it keeps the pool open");
    drop(keyed);
    assert!(weak.upgrade().is_none());
    gate.open();
    until(|| journal.len() == 20);
    assert!(journal.entries().into_iter().eq(0..20));
}

/// A key whose destructor panics.
#[derive(PartialEq, Eq, Hash)]
struct Bomb(u8);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(thread::panicking(), "as it is dropped");
    }
}

#[testkit::test]
fn a_call_returns_its_result_although_the_drop_of_a_key_panics() {
    let (pool, journal) = (wide(1), Journal::new());
    let keyed = pool.keyed();
    let gate = hold(&keyed, Bomb(1));
    // The lane exists, so this key is dropped.
    keyed.submit(Bomb(1), journal.writer(1)).unwrap();
    drop(keyed.spawn(Bomb(1), journal.writer(2)).unwrap());
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), [1, 2]);
    end(&pool);
}

#[testkit::test]
fn a_keyed_task_with_options_keeps_its_order_and_its_room_until_its_turn() {
    let (pool, journal) = (queueing(4), Journal::new());
    let (keyed, stop) = (pool.keyed(), CancelToken::new());
    let gate = hold(&keyed, 1);
    let named = keyed.task().name("named");
    let name = named.spawn((1, || pool_core::current().name().map(str::to_owned)));
    let cancelled = keyed.task().cancelled_by(&stop);
    cancelled.submit((1, journal.writer(0))).unwrap();
    keyed.submit(1, journal.writer(1)).unwrap();
    let late = keyed.task().start_before(Instant::now());
    let late = late.spawn((1, || ())).unwrap();
    stop.cancel();
    assert_eq!(pool.stats().reserved, 4);
    let refused = keyed.task().cancelled_by(&stop).try_submit((2, || 7));
    let refused = refused.unwrap_err();
    assert!(matches!(&refused, SubmitError::Cancelled((2, _))));
    assert_eq!((refused.into_task().1(), keyed.keys()), (7, 1));
    gate.open();
    assert_eq!(name.unwrap().join().unwrap().as_deref(), Some("named"));
    assert!(matches!(late.join(), Err(JoinError::Expired)));
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), [1]);
    let stats = pool.stats();
    let ends = (stats.completed, stats.cancelled, stats.expired);
    assert_eq!((ends, stats.reserved), ((3, 1, 1), 0));
    end(&pool);
}

fn refused_key<V, K, F>(polled: Poll<Result<V, SubmitError<(K, F)>>>) -> Option<SubmitError<K>> {
    match polled {
        Poll::Ready(Err(refused)) => Some(refused.map(|(key, _)| key)),
        Poll::Ready(Ok(_)) | Poll::Pending => None,
    }
}

#[testkit::test]
fn cancelling_a_token_ends_a_keyed_tasks_wait_for_room() {
    let (pool, stop) = (queueing(0), CancelToken::new());
    let keyed = pool.keyed();
    let gate = hold(&keyed, 1);
    let task = || keyed.task().cancelled_by(&stop);
    let mut submitted = task().submit_async((2, || ()));
    let mut spawned = task().spawn_async((2, || ()));
    assert!(poll(&mut submitted).is_pending() && poll(&mut spawned).is_pending());
    let mut unpolled = task().submit_async((2, || ()));
    let waits = {
        let (keyed, stop) = (keyed.clone(), stop.clone());
        enter_line(&pool, move |_| {
            keyed.task().cancelled_by(&stop).submit((2, || ()))
        })
    };
    stop.cancel();
    let is_cancelled =
        |refused: Option<SubmitError<u8>>| matches!(refused, Some(SubmitError::Cancelled(2)));
    assert!(is_cancelled(refused_key(poll(&mut submitted))));
    assert!(is_cancelled(refused_key(poll(&mut unpolled))));
    assert!(is_cancelled(refused_key(poll(&mut spawned))));
    assert!(is_cancelled(refused_key(Poll::Ready(
        waits.join().unwrap()
    ))));
    assert_eq!((pool.waiting(), pool.stats().refused), (0, 4));
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!((keyed.keys(), pool.stats().reserved), (0, 0));
    end(&pool);
}

#[testkit::test]
fn a_keyed_future_that_is_the_last_handle_ends_its_pool_with_no_lock_held() {
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(1)
        .drop_policy(DropPolicy::Join);
    let pool = pool.build().unwrap();
    let (keyed, journal) = (pool.keyed(), Journal::new());
    let gate = hold(&keyed, "key");
    // The task gets the room behind the running task of its key, and the future drops its handle.
    let mut submitted = Box::pin(keyed.submit_async("key", journal.writer("ran")));
    drop((pool, keyed));
    let poller = SystemThread::current();
    let opener = thread::spawn(move || {
        until(|| !poller.is_runnable()); // The drop waits for the end of both tasks.
        gate.open();
    });
    assert!(matches!(poll(&mut submitted), Poll::Ready(Ok(()))));
    assert_eq!(journal.entries(), ["ran"]);
    opener.join().unwrap();
}

//! Keys with a limit above one: this many tasks of a key run at a time, and start in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use pool_core::{JoinError, JoinHandle, Pool, QueueDepth};
use pool_util::{Keyed, PoolExt};
use testkit::{Gate, waker_fn};

use crate::support::{Journal, end, enter_line, poll_with, queueing};

fn wide(capacity: usize) -> Pool {
    let depth = QueueDepth::Unlimited;
    let pool = Pool::builder().capacity(capacity).queue_depth(depth);
    pool.build().unwrap()
}

/// A task of this key that waits at its gate.
fn gated(keyed: &Keyed<u8>, key: u8) -> Gate {
    let gate = Gate::new();
    let wait = gate.clone();
    keyed.try_submit(key, move || wait.wait()).unwrap();
    gate
}

/// Running tasks of key 1.
fn hold(keyed: &Keyed<u8>, tasks: usize) -> Vec<Gate> {
    let gates: Vec<_> = (0..tasks).map(|_| gated(keyed, 1)).collect();
    for gate in &gates {
        gate.wait_for_arrivals(1);
    }
    gates
}

fn open(gates: &[Gate]) {
    gates.iter().for_each(Gate::open);
}

/// Waits until the key has no task left in the pool.
fn over(pool: &Pool, keyed: &Keyed<u8>) {
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((keyed.keys(), stats.reserved, stats.in_flight), (0, 0, 0));
    end(pool);
}

#[testkit::test]
fn the_limit_bounds_running_tasks_of_a_key_and_any_end_starts_the_next() {
    let pool = wide(4);
    let keyed = pool.keyed().limit(2);
    let mut gates = hold(&keyed, 2);
    gates.extend((0..8).map(|_| gated(&keyed, 1)));
    for next in 2..10 {
        let stats = pool.stats();
        let waiting = 10 - next;
        assert_eq!(
            (stats.busy, stats.queued, stats.reserved),
            (2, 0, waiting),
            "before {next}"
        );
        // Another key is not affected.
        assert_eq!(keyed.spawn(2, || 7).unwrap().join().unwrap(), 7);
        assert_eq!(gates[next].arrivals(), 0);
        // Ends the older and the newer of the two running tasks in turn.
        let ends = if next % 2 == 0 { next - 1 } else { next - 3 };
        gates[ends].open();
        gates[next].wait_for_arrivals(1);
    }
    open(&gates);
    over(&pool, &keyed);
}

#[testkit::test]
fn two_keys_at_their_limits_do_not_affect_each_other() {
    let pool = wide(4);
    let keyed = pool.keyed().limit(2);
    let [ones, twos] = [1, 2].map(|key| [(); 3].map(|()| gated(&keyed, key)));
    for gate in [&ones[..2], &twos[..2]].concat() {
        gate.wait_for_arrivals(1);
    }
    assert_eq!((pool.stats().reserved, keyed.keys()), (2, 2));
    open(&ones);
    ones[2].wait_for_arrivals(1);
    assert_eq!(twos[2].arrivals(), 0);
    open(&twos);
    over(&pool, &keyed);
}

#[testkit::test]
fn tasks_of_a_key_start_in_order_although_its_turns_are_queued() {
    let (pool, journal) = (wide(1), Journal::new());
    let keyed = pool.keyed().limit(3);
    let gates = hold(&keyed, 1);
    for n in 0..100 {
        keyed.submit(1, journal.writer(n)).unwrap();
        // The queue is never empty, so turns go to its end.
        pool.submit(journal.writer(1_000 + n)).unwrap();
    }
    open(&gates);
    over(&pool, &keyed);
    let (keyed, plain): (Vec<_>, _) = journal.entries().into_iter().partition(|&n| n < 1_000);
    assert!(keyed.into_iter().eq(0..100));
    assert!(plain.into_iter().eq(1_000..1_100));
}

#[testkit::test]
fn many_submitters_of_many_keys_run_no_more_of_a_key_than_its_limit() {
    const KEYS: usize = 5;
    const TASKS: usize = 2_000;
    let pool = Pool::builder().capacity(4).queue_depth(9).build().unwrap();
    let keyed = pool.keyed::<usize>().limit(2);
    let running: Arc<[AtomicUsize; KEYS]> = Arc::default();
    thread::scope(|threads| {
        for submitter in 0..4 {
            let (keyed, running) = (keyed.clone(), &running);
            threads.spawn(move || {
                for n in 0..TASKS {
                    let key = (n * (submitter + 1)) % KEYS;
                    let running = Arc::clone(running);
                    let task = move || {
                        assert!(running[key].fetch_add(1, SeqCst) < 2, "two at a time");
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
fn a_panic_ends_one_task_of_the_limit() {
    let pool = wide(2);
    let keyed = pool.keyed().limit(2);
    let gates = hold(&keyed, 2);
    let panics: Vec<JoinHandle<()>> = (0..4)
        .map(|_| keyed.spawn(1, || panic!("a task")).unwrap())
        .collect();
    open(&gates[..1]); // The other task stays on its worker meanwhile.
    for handle in panics {
        assert!(matches!(handle.join(), Err(JoinError::Panicked(_))));
    }
    let more = gated(&keyed, 1);
    more.wait_for_arrivals(1);
    let last = keyed.spawn(1, || 3).unwrap();
    assert_eq!((pool.stats().busy, pool.stats().reserved), (2, 1));
    open(&gates);
    assert_eq!(last.join().unwrap(), 3);
    more.open();
    over(&pool, &keyed);
}

#[testkit::test]
fn a_cancelled_task_holds_its_place_of_the_limit_until_its_turn() {
    let (pool, kept) = (wide(1), Arc::new(()));
    let keyed = pool.keyed().limit(2);
    let gates = hold(&keyed, 1);
    let spawn = || {
        let kept = Arc::clone(&kept);
        keyed.spawn(1, move || drop(kept)).unwrap()
    };
    // The turn of the first is in the queue, and the others wait for a turn.
    let [queued, waits, last] = [spawn(), spawn(), spawn()];
    assert!(queued.cancel() && waits.cancel());
    assert_eq!(Arc::strong_count(&kept), 2);
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.reserved), (1, 2));
    open(&gates);
    last.join().unwrap();
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.cancelled, stats.completed), (2, 2));
    over(&pool, &keyed);
}

#[testkit::test]
fn a_full_pool_refuses_a_key_below_its_limit_and_admits_a_waiting_call_later() {
    let (pool, journal) = (queueing(2), Journal::new());
    let keyed = pool.keyed().limit(2);
    let gates = hold(&keyed, 1);
    pool.submit(|| ()).unwrap();
    pool.submit(|| ()).unwrap();
    // It would be the key's second task, and there is no room for it.
    let refused = keyed.try_submit(1, || 5).unwrap_err();
    assert!(refused.is_full());
    let (key, task) = refused.into_task();
    assert_eq!((key, task(), keyed.keys()), (1, 5, 1));
    // It gets its room as a permit, for another turn of the existing lane.
    let (ours, later) = (keyed.clone(), journal.writer(1));
    let waits = enter_line(&pool, move |_| ours.submit(1, later));
    open(&gates);
    waits.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), [1]);
    over(&pool, &keyed);
}

#[testkit::test]
fn the_permit_of_a_waiting_call_becomes_another_turn_of_a_running_key() {
    let pool = Pool::builder().capacity(2).build().unwrap();
    let keyed = pool.keyed().limit(2);
    let plain = Gate::new();
    let wait = plain.clone();
    pool.submit(move || wait.wait()).unwrap();
    plain.wait_for_arrivals(1);
    let gates = hold(&keyed, 1);
    let second = Gate::new();
    let (ours, wait) = (keyed.clone(), second.clone());
    let waits = enter_line(&pool, move |_| ours.submit(1, move || wait.wait()));
    plain.open();
    waits.join().unwrap().unwrap();
    second.wait_for_arrivals(1); // Although the first one still runs.
    open(&gates);
    second.open();
    over(&pool, &keyed);
}

#[testkit::test]
fn release_now_drops_tasks_behind_a_queued_turn_while_another_runs() {
    let (pool, kept) = (wide(1), Arc::new(()));
    let keyed = pool.keyed().limit(3);
    let gates = hold(&keyed, 1);
    let behind: Vec<_> = (0..5)
        .map(|_| {
            let kept = Arc::clone(&kept);
            keyed.spawn(1, move || drop(kept)).unwrap()
        })
        .collect();
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.reserved), (2, 3));
    assert_eq!(pool.release_now(), 2, "one for each turn in the queue");
    assert_eq!(Arc::strong_count(&kept), 1, "dropped before it returns");
    assert_eq!(keyed.keys(), 1, "one of its tasks runs");
    for handle in behind {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    open(&gates);
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((keyed.keys(), stats.reserved, stats.in_flight), (0, 0, 0));
    let ends = (stats.completed, stats.released);
    assert_eq!((stats.submitted, ends), (6, (1, 5)));
}

#[testkit::test]
fn release_now_drops_tasks_behind_running_tasks_when_the_first_ends() {
    let pool = wide(2);
    let keyed = pool.keyed().limit(2);
    let gates = hold(&keyed, 2);
    let behind: Vec<_> = (0..3).map(|_| keyed.spawn(1, || ()).unwrap()).collect();
    assert_eq!(pool.release_now(), 0);
    gates[1].open();
    for handle in behind {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    assert_eq!(keyed.keys(), 1, "one of its tasks runs");
    gates[0].open();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((keyed.keys(), stats.reserved, stats.in_flight), (0, 0, 0));
    assert_eq!((stats.completed, stats.released), (2, 3));
}

#[testkit::test]
fn a_waker_that_holds_a_worker_does_not_change_the_order_of_a_key() {
    let (pool, gate, journal) = (wide(2), Gate::new(), Journal::new());
    let keyed = pool.keyed().limit(2);
    let gates = hold(&keyed, 1);
    let held = Gate::new();
    let wait = held.clone();
    let mut awaited = keyed.spawn(1, move || wait.wait()).unwrap();
    held.wait_for_arrivals(1);
    (0..5).for_each(|n| keyed.submit(1, journal.writer(n)).unwrap());
    let wait = gate.clone();
    let waker = waker_fn(move || wait.wait());
    assert!(poll_with(&mut awaited, &waker).is_pending());
    held.open();
    gate.wait_for_arrivals(1);
    // The worker is in the waker, so the key's other turn runs all waiting tasks.
    open(&gates);
    keyed.spawn(1, || ()).unwrap().join().unwrap();
    assert!(journal.entries().into_iter().eq(0..5));
    gate.open();
    over(&pool, &keyed);
}

#[testkit::test]
fn a_limit_of_zero_is_one_and_a_limited_handle_has_separate_keys() {
    let pool = wide(2);
    let plain = pool.keyed();
    let gates = hold(&plain, 1);
    let limited = plain.clone().limit(0);
    assert_eq!((plain.keys(), limited.keys()), (1, 0));
    let own = hold(&limited, 1);
    limited.submit(1, || ()).unwrap();
    assert_eq!(pool.stats().reserved, 1, "the second of a key waits");
    open(&gates);
    open(&own);
    over(&pool, &limited);
}

//! The work queue: metrics that wait, drains that are dropped, and at most one worker per key.

use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anthill::dedup_queue::{Delaying, GetError, Held, KeyQueue, Layer, Metrics, Plain};
use anthill::{ManualClock, Pool};
use sync_shim::model::{random_below, spawn};
use sync_shim::thread::yield_now;

use super::{InPlace, Latch, Ledger, SECOND, block_on, join_all, poll_once};

type Fixed = BuildHasherDefault<DefaultHasher>;
type Queue<L> = KeyQueue<u32, Fixed, ManualClock, L>;

/// Metrics that submit to a small pool, wait for room, and join a task of it.
struct Submits(Pool, Ledger);

impl Metrics for Submits {
    fn depth(&self, _: &str, _: i64) {
        self.0.submit(self.1.task()).unwrap();
        self.0.spawn(self.1.task()).unwrap().join().unwrap();
    }

    fn queue_duration_seconds(&self, _: &str, _: Duration) {
        self.0.spawn(self.1.task()).unwrap().join().unwrap();
    }
}

/// Checks that no key has two workers at a time, and counts the deliveries.
#[derive(Clone, Default)]
struct Desk(Arc<([AtomicBool; 4], AtomicUsize)>);

impl Desk {
    fn work(&self, key: u32) {
        let held = &self.0.0[key as usize];
        assert!(!held.swap(true, Relaxed), "two workers on one key");
        yield_now();
        held.store(false, Relaxed);
        self.0.1.fetch_add(1, Relaxed);
    }
}

fn small_pool() -> Pool {
    Pool::builder()
        .capacity(1)
        .queue_depth(1)
        .keep_alive(None)
        .build()
        .unwrap()
}

/// Gets keys by every call until the queue is shut down and empty.
fn get_all<L: Layer>(queue: &Queue<L>, desk: &Desk) {
    loop {
        let got = match random_below(3) {
            0 => queue.get().map(Held::into_owned),
            1 => block_on(queue.get_async()),
            _ => {
                let mut given_up = queue.get_async();
                if let std::task::Poll::Ready(Ok(held)) = poll_once(&mut given_up) {
                    desk.work(*held.key());
                }
                drop(given_up);
                queue.get_timeout(SECOND).map(Held::into_owned)
            }
        };
        match got {
            Ok(held) => {
                desk.work(*held.key());
                held.done();
            }
            Err(GetError::TimedOut) => {}
            Err(error) if error.is_closed() => return,
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Metrics that wait, in each call that the queue makes.
#[testkit::scenario]
fn metrics_that_wait_for_a_pool_lose_no_wake_up() {
    let (pool, ledger, desk) = (small_pool(), Ledger::default(), Desk::default());
    let clock = ManualClock::new();
    let queue: Queue<Delaying> = KeyQueue::<u32, _, _, Delaying>::builder()
        .hasher(Fixed::default())
        .clock(clock.clone())
        .metrics(Submits(pool.clone(), ledger.clone()))
        .build();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (queue, desk) = (queue.clone(), desk.clone());
            spawn(move || get_all(&queue, &desk))
        })
        .collect();
    let adder = {
        let queue = queue.clone();
        spawn(move || {
            for key in 0..2 {
                queue.add(key).unwrap();
                queue.add_after(key + 1, SECOND).unwrap();
            }
        })
    };
    let time = {
        let clock = clock.clone();
        spawn(move || (0..2).for_each(|_| clock.advance(SECOND)))
    };
    adder.join().unwrap();
    time.join().unwrap();
    clock.advance(SECOND * 2);
    // Each of the three keys is delivered before the shut-down.
    while queue.stats().ready + queue.stats().held + queue.stats().delayed > 0 {
        yield_now();
    }
    assert!(desk.0.1.load(Relaxed) >= 3);
    queue.shut_down();
    join_all(workers);
    pool.wait_idle().unwrap();
    pool.release();
    pool.wait_released().unwrap();
    ledger.is_settled();
}

/// Metrics that wait on the getter's own thread, just before it sleeps again. A held key falls due,
/// so the getter, as the leader, learns of a delivery that is due while none is ready. Its wake-up
/// arrives while the metrics wait.
#[testkit::scenario]
fn metrics_that_wait_lose_no_wake_up_of_their_getter() {
    let (pool, ledger, clock) = (small_pool(), Ledger::default(), ManualClock::new());
    let queue: Queue<Delaying> = KeyQueue::<u32, _, _, Delaying>::builder()
        .hasher(Fixed::default())
        .clock(clock.clone())
        .metrics(Submits(pool.clone(), ledger.clone()))
        .build();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    queue.add_after(1, SECOND).unwrap();
    let getter = {
        let queue = queue.clone();
        spawn(move || queue.get().unwrap().done())
    };
    let time = spawn(move || clock.advance(SECOND));
    (0..random_below(8)).for_each(|_| yield_now());
    held.done();
    getter.join().unwrap();
    time.join().unwrap();
    pool.wait_idle().unwrap();
    pool.release();
    pool.wait_released().unwrap();
    ledger.is_settled();
}

/// Drains that are dropped at any point, and one that is not.
#[testkit::scenario]
fn a_dropped_drain_leaves_every_key_to_the_next_drain() {
    let desk = Desk::default();
    let queue: Queue<Plain> = KeyQueue::<u32, _, _, Plain>::builder()
        .hasher(Fixed::default())
        .clock(ManualClock::new())
        .build();
    for key in 0..3 {
        queue.add(key).unwrap();
    }
    let worker = {
        let (queue, desk) = (queue.clone(), desk.clone());
        let count = random_below(4);
        spawn(move || {
            for _ in 0..count {
                let Ok(held) = queue.get() else { return };
                desk.work(*held.key());
            }
        })
    };
    let quitter = {
        let queue = queue.clone();
        spawn(move || {
            let mut drain = queue.drain_async();
            let mut kept = 0;
            for _ in 0..random_below(4) {
                if let std::task::Poll::Ready(drained) = poll_once(&mut drain) {
                    kept += drained.leftovers.map_or(0, |left| left.ready.len());
                    return kept;
                }
                yield_now();
            }
            kept
        })
    };
    let kept = quitter.join().unwrap();
    worker.join().unwrap();
    let drained = queue.drain_timeout(Duration::ZERO);
    let left = drained.leftovers.map_or(0, |left| left.ready.len());
    assert_eq!(desk.0.1.load(Relaxed) + kept + left, 3);
}

/// A getter whose continuation runs inside the adder's call adds keys, and gets another one itself.
#[testkit::scenario]
fn getters_run_in_place_that_wait_lose_no_key() {
    let desk = Desk::default();
    let queue: Queue<Plain> = KeyQueue::<u32, _, _, Plain>::builder()
        .hasher(Fixed::default())
        .clock(ManualClock::new())
        .build();
    let worker = {
        let (queue, desk) = (queue.clone(), desk.clone());
        spawn(move || get_all(&queue, &desk))
    };
    let overs: Vec<_> = (0..2)
        .map(|_| {
            let (queue, desk) = (queue.clone(), desk.clone());
            InPlace::start(async move {
                if let Ok(held) = queue.get_async().await {
                    desk.work(*held.key());
                    queue.add(3).unwrap();
                    held.done();
                }
            })
        })
        .collect();
    let adders: Vec<_> = (0..2)
        .map(|key| {
            let queue = queue.clone();
            spawn(move || {
                queue.add(key).unwrap();
                queue.add(key + 1).unwrap();
            })
        })
        .collect();
    join_all(adders);
    while queue.stats().ready + queue.stats().held > 0 {
        yield_now();
    }
    assert!(desk.0.1.load(Relaxed) >= 3);
    queue.shut_down();
    overs.iter().for_each(Latch::wait);
    worker.join().unwrap();
    assert!(queue.is_empty());
}

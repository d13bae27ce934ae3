//! Keyed tasks: each key runs in order, in one of the pools.

use std::hash::RandomState;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt};
use pool_core::{DropPolicy, Pool, SubmitError};
use pool_util::{Keyed, PoolExt};
use testkit::{Gate, block_on};

use crate::support::{Journal, multi};

const SECOND: Duration = Duration::from_secs(1);

fn keyed(pools: usize, capacity: usize, depth: usize) -> Keyed<u64, RandomState, MultiPool> {
    let each = Pool::builder().capacity(capacity).queue_depth(depth);
    let pool = MultiBuilder::new(each).pools(pools).build().unwrap();
    pool.keyed()
}

#[testkit::test]
fn tasks_of_a_key_run_in_order_in_every_pool() {
    let keyed = keyed(3, 2, 1_000);
    let journal = Journal::new();
    for number in 0..50 {
        for key in 0..20 {
            keyed.submit(key, journal.writer((key, number))).unwrap();
        }
    }
    keyed.pool().wait_idle().unwrap();
    let entries = journal.entries();
    for key in 0..20 {
        let of_key = entries.iter().filter(|entry| entry.0 == key);
        assert!(of_key.map(|entry| entry.1).eq(0..50), "key {key}");
    }
    assert_eq!(keyed.keys(), 0);
    let used = (0..3).filter(|&pool| keyed.pool().stats_of(pool).unwrap().completed > 0);
    assert_eq!(used.count(), 3, "20 keys are in more than two pools");
}

#[testkit::test]
fn every_call_with_a_key_goes_to_its_pool_and_keeps_the_order() {
    let (keyed, journal) = (keyed(3, 2, 1_000), Journal::new());
    let (long, far) = (SECOND * 60, Instant::now() + SECOND * 60);
    for key in 0..20 {
        let gate = Gate::new();
        let held = gate.clone();
        keyed.submit(key, move || held.wait()).unwrap();
        gate.wait_for_arrivals(1);
        let write = |number| journal.writer((key, number));
        keyed.submit_timeout(key, write(0), long).unwrap();
        keyed.submit_timeout(key, write(1), far).unwrap();
        block_on(keyed.submit_async(key, write(2))).unwrap();
        let third = keyed.spawn_timeout(key, write(3), long).unwrap();
        let fourth = keyed.spawn_timeout(key, write(4), far).unwrap();
        let fifth = block_on(keyed.spawn_async(key, write(5))).unwrap();
        assert_eq!(keyed.keys(), 1);
        gate.open();
        for handle in [third, fourth, fifth] {
            handle.join().unwrap();
        }
        let of_key = journal.entries().into_iter().filter(|entry| entry.0 == key);
        assert!(of_key.map(|entry| entry.1).eq(0..6), "key {key}");
    }
}

#[testkit::test]
fn a_task_is_refused_by_the_full_pool_of_its_key_although_another_has_room() {
    let keyed = keyed(2, 1, 0);
    let here = keyed.member_of(&0);
    let other = (1..10_000)
        .find(|key| keyed.member_of(key) != here)
        .unwrap();
    let gate = Gate::new();
    let held = gate.clone();
    let first = keyed.spawn(0, move || held.wait()).unwrap();
    gate.wait_for_arrivals(1);
    let refused = keyed.try_submit(0, || ());
    assert!(matches!(refused, Err(SubmitError::Full((0, _)))));
    assert!(matches!(
        keyed.try_spawn(0, || ()),
        Err(SubmitError::Full((0, _)))
    ));
    assert_eq!(
        keyed
            .clone()
            .try_spawn(other, || 7)
            .unwrap()
            .join()
            .unwrap(),
        7
    );
    gate.open();
    first.join().unwrap();
}

#[testkit::test]
fn a_keyed_handle_keeps_the_multi_pool_open_and_its_drop_ends_it() {
    let each = Pool::builder()
        .capacity(1)
        .queue_depth(10)
        .drop_policy(DropPolicy::Join);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let weak = pool.downgrade();
    let keyed = pool.keyed();
    drop(pool);
    let token = Arc::new(());
    for key in 0..10_u64 {
        let held = Arc::clone(&token);
        keyed
            .submit(key, move || {
                thread::yield_now();
                drop(held);
            })
            .unwrap();
    }
    drop(keyed);
    assert!(weak.upgrade().is_none());
    assert_eq!(Arc::strong_count(&token), 1, "all have run");
}

#[testkit::test]
fn a_released_multi_pool_returns_key_and_task() {
    let pool = multi(2, 1);
    let keyed = pool.keyed();
    pool.release();
    assert!(matches!(
        keyed.submit(3, || ()),
        Err(SubmitError::Released((3, _)))
    ));
}

#[testkit::test]
fn the_limit_holds_for_each_key_in_every_pool() {
    let keyed = keyed(3, 3, 1_000).limit(2);
    for key in 0..20 {
        let gates = [(); 3].map(|()| Gate::new());
        for gate in gates.clone() {
            keyed.submit(key, move || gate.wait()).unwrap();
        }
        gates[..2].iter().for_each(|gate| gate.wait_for_arrivals(1));
        let stats = keyed.pool().stats_of(keyed.member_of(&key)).unwrap();
        assert_eq!((stats.busy, stats.reserved), (2, 1), "key {key}");
        gates[0].open();
        gates[2].wait_for_arrivals(1);
        gates.iter().for_each(Gate::open);
        keyed.pool().wait_idle().unwrap();
    }
    assert_eq!(keyed.keys(), 0);
}

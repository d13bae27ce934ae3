//! Statistics: sums, and per pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use multi_pool::{
    IndexError, LeastTasks, MultiBuilder, MultiFuncPool, MultiPool, MultiPoolExt, MultiWorkerPool,
    RoundRobin, Strategy,
};
use pool_core::{Capacity, Closures, FuncPool, Pool, Runner, SubmitError};
use testkit::Gate;

use crate::support::{end, hold_all, multi};

const POOLS: usize = 10;
const EACH: usize = 5;
const ALL: usize = POOLS * EACH;
const NEVER: Duration = Duration::MAX;

/// Fills ten pools of capacity five with fifty tasks and empties them, before and after a reboot.
fn lives_twice<R: Runner>(
    pool: &MultiWorkerPool<R>,
    submit: impl Fn(&MultiWorkerPool<R>, Gate) -> bool,
) {
    for _ in 0..2 {
        let gate = Gate::new();
        for _ in 0..ALL {
            assert!(submit(pool, gate.clone()));
        }
        gate.wait_for_arrivals(ALL);
        let (running, free, waiting) = (pool.running(), pool.free(), pool.waiting());
        assert_eq!((running, free, waiting), (ALL, Some(0), 0));
        assert_eq!(pool.capacity(), Capacity::Limited(ALL));
        assert_eq!((pool.busy(), pool.idle()), (ALL, 0));
        assert_eq!((pool.in_flight(), pool.queued()), (ALL, 0));
        for index in 0..POOLS {
            assert_eq!(pool.running_of(index), Ok(EACH));
            assert_eq!(pool.free_of(index), Ok(Some(0)));
            assert_eq!(pool.waiting_of(index), Ok(0));
            assert_eq!(pool.stats_of(index).unwrap().busy, EACH);
        }
        gate.open();
        pool.release_timeout(NEVER).unwrap();
        pool.release_timeout(NEVER).unwrap(); // Can be repeated.
        assert!(!pool.release() && pool.is_released());
        assert!(!submit(pool, gate));
        let figures = (
            pool.running(),
            pool.free(),
            pool.waiting(),
            pool.in_flight(),
        );
        assert_eq!(figures, (0, Some(ALL), 0, 0));
        assert!(pool.reboot() && !pool.reboot() && !pool.is_released());
    }
    let stats = pool.stats();
    assert_eq!(stats.submitted, 2 * ALL as u64);
    assert_eq!((stats.completed, stats.refused), (stats.submitted, 2));
    end(pool);
}

fn closures(strategy: impl Strategy) -> MultiPool {
    let builder: MultiBuilder<Closures> = MultiBuilder::new(Pool::builder().capacity(EACH));
    builder.pools(POOLS).strategy(strategy).build().unwrap()
}

fn typed(strategy: impl Strategy) -> MultiFuncPool<Gate> {
    let each = FuncPool::builder(|gate: Gate| gate.wait()).capacity(EACH);
    let builder = MultiBuilder::new(each).pools(POOLS);
    builder.strategy(strategy).build().unwrap()
}

#[testkit::test]
fn fifty_tasks_fill_ten_pools_of_five_before_and_after_a_reboot() {
    let closure = |pool: &MultiPool, gate: Gate| pool.try_submit(move || gate.wait()).is_ok();
    lives_twice(&closures(RoundRobin::new()), closure);
    lives_twice(&closures(LeastTasks), closure);
}

#[testkit::test]
fn fifty_arguments_fill_ten_typed_pools_of_five_before_and_after_a_reboot() {
    let argument = |pool: &MultiFuncPool<Gate>, gate| pool.try_submit(gate).is_ok();
    lives_twice(&typed(RoundRobin::new()), argument);
    lives_twice(&typed(LeastTasks), argument);
}

#[testkit::test]
fn a_thousand_numbers_are_summed_by_every_kind_of_pool() {
    let sum = Arc::new(AtomicU64::new(0));
    let pool = multi(4, 3);
    for number in 0..1000 {
        let sum = Arc::clone(&sum);
        pool.submit(move || _ = sum.fetch_add(number, SeqCst))
            .unwrap();
    }
    pool.wait_idle().unwrap();
    assert_eq!(sum.load(SeqCst), 499_500);

    let total = Arc::clone(&sum);
    let each = FuncPool::builder(move |number| total.fetch_add(number, SeqCst)).capacity(3);
    let pool = MultiBuilder::new(each).pools(4).build().unwrap();
    (0..1000).for_each(|number| pool.submit(number).unwrap());
    pool.wait_idle().unwrap();
    assert_eq!(sum.load(SeqCst), 999_000);
}

#[testkit::test]
fn an_index_out_of_range_is_an_error() {
    let pool = multi(POOLS, EACH);
    for index in [POOLS, usize::MAX] {
        let error = IndexError {
            index,
            pools: POOLS,
        };
        assert_eq!(pool.running_of(index), Err(error));
        assert_eq!(pool.free_of(index), Err(error));
        assert_eq!(pool.waiting_of(index), Err(error));
        assert_eq!(pool.stats_of(index), Err(error));
    }
    let error = pool.running_of(POOLS).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pool index 10 is out of range for 10 pools"
    );
}

#[testkit::test]
fn the_sum_of_unlimited_pools_is_unlimited() {
    let each = Pool::builder().unlimited();
    let pool = MultiBuilder::new(each).pools(3).build().unwrap();
    assert_eq!((pool.capacity(), pool.free()), (Capacity::Unlimited, None));
    assert_eq!(pool.free_of(2), Ok(None));
    assert_eq!(pool.stats().capacity, Capacity::Unlimited);
    pool.tune(4).unwrap();
    assert_eq!(
        (pool.capacity(), pool.free()),
        (Capacity::Limited(12), Some(12))
    );
}

#[test]
fn a_capacity_sum_that_overflows_is_unlimited() {
    let pool = multi(3, usize::MAX / 2);
    assert_eq!(pool.capacity(), Capacity::Unlimited);
    assert_eq!(pool.free(), Some(usize::MAX));
}

#[testkit::test]
fn a_refusal_by_several_full_pools_is_counted_once() {
    let pool = multi(4, 1);
    let gates = hold_all(&pool, 4);
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    assert!(matches!(pool.try_spawn(|| ()), Err(SubmitError::Full(_))));
    assert_eq!((pool.stats().refused, pool.stats().submitted), (2, 4));
    gates.iter().for_each(Gate::open);
    end(&pool);
    assert_eq!(pool.stats().completed, 4);
}

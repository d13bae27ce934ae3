//! The choice of a pool for a task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use multi_pool::{
    LeastTasks, Load, Loads, MultiBuilder, MultiPool, MultiPoolExt, RoundRobin, Strategy,
};
use pool_core::{Capacity, Pool, QueueDepth, SubmitError};
use testkit::{DropCounter, Gate};

use crate::support::{Journal, end, here, hold, hold_all, multi, next, poll};

fn with(pools: usize, capacity: usize, strategy: impl Strategy) -> MultiPool {
    let each = Pool::builder().capacity(capacity);
    let builder = MultiBuilder::new(each).pools(pools);
    builder.strategy(strategy).build().unwrap()
}

fn load(in_flight: usize, capacity: usize, depth: usize) -> Load {
    let mut load = Load::new(Capacity::Limited(capacity), QueueDepth::Limited(depth));
    load.in_flight = in_flight;
    load
}

#[testkit::test]
fn round_robin_starts_with_the_first_pool_in_every_generation() {
    let pool = multi(3, 1);
    for _ in 0..3 {
        assert_eq!([(); 4].map(|()| next(&pool)), [0, 1, 2, 0]);
        end(&pool);
        assert!(pool.try_submit(|| ()).is_err()); // Does not advance the turn of the next life.
        pool.reboot();
    }
}

#[testkit::test]
fn round_robin_skips_a_full_pool() {
    let pool = multi(3, 1);
    let first = hold(&pool);
    // These are all blocking calls, and none of them blocks.
    assert_eq!([(); 6].map(|()| next(&pool)), [1, 2, 1, 1, 2, 1]);
    let rest = hold_all(&pool, 2);
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    first.open();
    rest.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn round_robin_prefers_a_free_worker_to_a_place_in_a_queue() {
    let each = Pool::builder().capacity(1).queue_depth(1);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let first = hold(&pool);
    assert_eq!(next(&pool), 1);
    assert_eq!(
        next(&pool),
        1,
        "the turn of the first, which could only queue it"
    );
    let second = hold(&pool);
    let journal = Journal::new();
    for _ in 0..2 {
        let journal = journal.clone();
        pool.try_submit(move || journal.write(here())).unwrap();
    }
    assert_eq!((pool.queued(), pool.in_flight()), (2, 4));
    assert_eq!(pool.stats_of(0).unwrap().queued, 1);
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    first.open();
    second.open();
    end(&pool);
    let mut pools = journal.entries();
    pools.sort_unstable();
    assert_eq!(pools, [0, 1]);
}

#[testkit::test]
fn least_tasks_counts_tasks_and_not_idle_workers() {
    let pool = with(3, 4, LeastTasks);
    let gates = hold_all(&pool, 6);
    let running = [0, 1, 2].map(|index| pool.running_of(index).unwrap());
    assert_eq!(running, [2, 2, 2]);
    gates.iter().for_each(Gate::open);
    pool.wait_idle().unwrap();
    let gate = hold(&pool); // Runs on the first pool. All loads are equal again.
    assert_eq!(pool.stats_of(0).unwrap().in_flight, 1);
    // The second pool has as many live workers as the first one, and fewer tasks.
    assert_eq!([(); 3].map(|()| next(&pool)), [1, 1, 1]);
    gate.open();
    end(&pool);
}

#[test]
fn least_tasks_chooses_the_first_pool_with_the_fewest_tasks() {
    let choose = |loads: &[Load]| LeastTasks.choose(&Loads::given(loads));
    assert_eq!(choose(&[load(3, 9, 0), load(1, 9, 0), load(1, 9, 0)]), 1);
    let mut waited_for = load(1, 9, 0);
    waited_for.waiting = 3;
    assert_eq!(choose(&[waited_for, load(3, 9, 0), load(4, 9, 0)]), 1);
    let mut many_idle = load(0, 9, 0);
    many_idle.live = 9;
    assert_eq!(choose(&[load(1, 9, 0), many_idle]), 1);
}

#[test]
fn round_robin_looks_for_a_worker_then_for_a_queue_and_then_keeps_its_turn() {
    let choose = |loads: &[Load]| RoundRobin::new().choose(&Loads::given(loads));
    assert_eq!(choose(&[load(0, 1, 0), load(0, 1, 0)]), 0);
    assert_eq!(choose(&[load(1, 1, 5), load(1, 1, 0), load(0, 1, 0)]), 2);
    assert_eq!(choose(&[load(1, 1, 0), load(1, 1, 1), load(1, 1, 1)]), 1);
    assert_eq!(choose(&[load(1, 1, 0), load(1, 1, 0)]), 0);
}

#[test]
fn a_load_tells_whether_a_worker_or_a_queue_has_room() {
    let of = |load: Load| (load.has_worker(), load.has_room());
    assert_eq!(of(load(1, 2, 0)), (true, true));
    assert_eq!(of(load(2, 2, 0)), (false, false));
    assert_eq!(of(load(2, 2, 1)), (false, true));
    let mut endless = Load::new(Capacity::Limited(2), QueueDepth::Unlimited);
    endless.in_flight = usize::MAX;
    assert_eq!(of(endless), (false, true));
    let mut unlimited = Load::new(Capacity::Unlimited, QueueDepth::Limited(0));
    unlimited.in_flight = usize::MAX;
    assert_eq!(of(unlimited), (true, true));
}

struct Always(usize);

impl Strategy for Always {
    fn choose(&self, _: &Loads<'_>) -> usize {
        self.0
    }
}

#[testkit::test]
fn a_choice_out_of_range_is_taken_modulo_the_number_of_pools() {
    assert_eq!(next(&with(3, 1, Always(7))), 1);
    assert_eq!(next(&with(3, 1, Always(usize::MAX))), usize::MAX % 3);
}

#[testkit::test]
fn a_task_goes_to_another_pool_if_the_chosen_one_is_full() {
    let pool = with(3, 1, Always(1));
    let gates = hold_all(&pool, 3);
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    gates[2].open();
    pool.submit(|| ()).unwrap();
    gates.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn a_strategy_sees_the_loads_that_its_caller_has_seen() {
    /// The load of the first pool at the last call.
    #[derive(Clone)]
    struct Look(Arc<Mutex<Option<Load>>>);
    impl Strategy for Look {
        fn choose(&self, loads: &Loads<'_>) -> usize {
            assert_eq!((loads.len(), loads.get(2)), (2, None));
            *self.0.lock().unwrap() = loads.get(0);
            0
        }
    }
    let look = Look(Arc::new(Mutex::new(None)));
    let each = Pool::builder().capacity(3).queue_depth(2);
    let builder = MultiBuilder::new(each).pools(2);
    let pool = builder.strategy(look.clone()).build().unwrap();
    let expect = |in_flight, live, capacity| {
        let mut load = load(in_flight, capacity, 2);
        load.live = live;
        assert_eq!(*look.0.lock().unwrap(), Some(load));
    };
    let mut gates = Vec::new();
    for held in 0..3 {
        gates.push(hold(&pool));
        expect(held, held, 3);
    }
    pool.tune(4).unwrap();
    gates.push(hold(&pool));
    expect(3, 3, 4);
    gates.iter().for_each(Gate::open);
    pool.wait_idle().unwrap();
    pool.submit(|| ()).unwrap();
    expect(0, 4, 4);
    end(&pool);
    let _ = pool.submit(|| ());
    expect(0, 0, 4);
}

/// Whether the chosen pool is idle, busy or full, and whatever the call.
#[testkit::test]
fn a_strategy_is_asked_once_for_each_task() {
    #[derive(Clone)]
    struct Count(Arc<AtomicUsize>);
    impl Strategy for Count {
        fn choose(&self, _: &Loads<'_>) -> usize {
            self.0.fetch_add(1, SeqCst)
        }
    }
    let count = Count(Arc::new(AtomicUsize::new(0)));
    let each = Pool::builder().capacity(1).queue_depth(2);
    let builder = MultiBuilder::new(each).pools(2);
    let pool = builder.strategy(count.clone()).build().unwrap();
    let asked = |call: &dyn Fn()| {
        let before = count.0.load(SeqCst);
        call();
        count.0.load(SeqCst) - before
    };
    let held = hold_all(&pool, 2); // Both pools were idle.
    assert_eq!(count.0.load(SeqCst), 2);
    let large = [1_u8; 300];
    assert_eq!(asked(&|| pool.submit(|| ()).unwrap()), 1);
    assert_eq!(asked(&|| drop(pool.spawn(|| ()).unwrap())), 1);
    let submit_large = || pool.submit(move || assert_eq!(large[299], 1)).unwrap();
    assert_eq!(asked(&submit_large), 1);
    assert_eq!(asked(&|| pool.task().name("x").submit(|| ()).unwrap()), 1);
    assert_eq!(asked(&|| assert!(pool.try_submit(|| ()).is_err())), 1);
    held.iter().for_each(Gate::open);
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 6);
}

#[testkit::test]
fn no_strategy_is_asked_for_a_single_pool() {
    struct Never;
    impl Strategy for Never {
        fn choose(&self, _: &Loads<'_>) -> usize {
            unreachable!("there is nothing to choose")
        }
    }
    let pool = with(1, 1, Never);
    let held = hold_all(&pool, 1);
    assert!(pool.try_submit(|| ()).is_err());
    held.iter().for_each(Gate::open);
    end(&pool);
}

#[testkit::test]
fn a_panicking_strategy_leaves_the_statistics_exact() {
    struct Panics(Arc<AtomicUsize>);
    impl Strategy for Panics {
        fn choose(&self, _: &Loads<'_>) -> usize {
            assert_ne!(self.0.load(SeqCst), 0, "the test asks for a panic");
            0
        }
        fn reset(&self) {
            assert_ne!(self.0.load(SeqCst), 0, "the test asks for a panic");
        }
    }
    let calm = Arc::new(AtomicUsize::new(0));
    let pool = with(2, 1, Panics(Arc::clone(&calm)));
    let drops = DropCounter::new();
    let task = || {
        let token = drops.token();
        move || drop(token)
    };
    let panics = |call: &dyn Fn()| catch_unwind(AssertUnwindSafe(call)).is_err();
    assert!(panics(&|| _ = pool.submit(task())));
    assert!(panics(&|| _ = pool.spawn(task())));
    assert!(panics(&|| _ = poll(&mut pool.submit_async(task()))));
    assert_eq!((drops.alive(), pool.in_flight(), pool.running()), (0, 0, 0));
    assert_eq!((pool.stats().submitted, pool.waiting()), (0, 0));
    pool.release();
    assert!(panics(&|| _ = pool.reboot()));
    assert!(!pool.is_released(), "it was rebooted before");
    calm.store(1, SeqCst);
    pool.submit(task()).unwrap();
    end(&pool);
    assert_eq!((pool.stats().completed, drops.alive()), (1, 0));
}

//! Allocations per task. A separate binary, because it replaces the global allocator.
#![cfg(not(anthill_loom))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use pool_core::{CancelToken, FuncPool, Pool, Priority, QueueDepth};
use testkit::{Gate, LIMIT, watchdog};

/// The system's allocator. Counts the allocations of the observed threads, and the bytes in use on
/// all threads.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// Allocations of the observed threads that ask for more alignment than `malloc` gives.
static ALIGNED: AtomicUsize = AtomicUsize::new(0);

thread_local!(static LOOKED_AT: Cell<bool> = const { Cell::new(false) });

// SAFETY: forwards to the system's allocator. The counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if LOOKED_AT.get() {
            COUNT.fetch_add(1, SeqCst);
            ALIGNED.fetch_add(usize::from(layout.align() > 16), SeqCst);
        }
        IN_USE.fetch_add(layout.size(), SeqCst);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if LOOKED_AT.get() {
            COUNT.fetch_add(1, SeqCst);
        }
        IN_USE.fetch_add(size, SeqCst);
        IN_USE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs one test at a time, under a watchdog.
fn alone(test: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    watchdog(LIMIT, test);
}

/// Observes the calling thread from now on: a worker from its start, a test during a call.
fn look() {
    LOOKED_AT.set(true);
}

/// Two observed workers that do not expire.
fn pool(depth: impl Into<QueueDepth>) -> Pool {
    let pool = Pool::builder().capacity(2).min_workers(2);
    let pool = pool.queue_depth(depth).start_hook(look);
    pool.build().unwrap()
}

/// Allocations for submitting a backlog while `hold` keeps both workers at a gate, and for running
/// it.
fn cost(hold: impl Fn(Gate), hand_over: impl Fn(), wait: impl Fn()) -> usize {
    let gate = Gate::new();
    for _ in 0..2 {
        hold(gate.clone());
    }
    gate.wait_for_arrivals(2);
    let before = COUNT.load(SeqCst);
    look();
    hand_over();
    LOOKED_AT.set(false);
    gate.open();
    wait();
    COUNT.load(SeqCst) - before
}

/// The minimum of several rounds. A worker's first park allocates, and may fall into any one of the
/// rounds.
fn when_warm(cost: impl Fn() -> usize) -> usize {
    (0..5).map(|_| cost()).min().unwrap()
}

/// The allocations of a pool of closures that has already held such a backlog.
fn cost_when_warm(pool: &Pool, hand_over: impl Fn()) -> usize {
    when_warm(|| {
        let hold = |gate: Gate| pool.submit(move || gate.wait()).unwrap();
        cost(hold, &hand_over, || pool.wait_idle().unwrap())
    })
}

#[test]
fn submitting_a_small_closure_allocates_nothing() {
    alone(|| {
        let pool = pool(1000);
        let count = cost_when_warm(&pool, || {
            for n in 0..1000_usize {
                let captures = [n; 6];
                pool.submit(move || assert_eq!(captures[5], n)).unwrap();
            }
        });
        assert_eq!((count, pool.stats().panicked), (0, 0));
    });
}

#[test]
fn submitting_a_large_closure_allocates_once() {
    alone(|| {
        let pool = pool(1000);
        let count = cost_when_warm(&pool, || {
            for n in 0..1000_usize {
                let captures = [n; 20];
                pool.submit(move || assert_eq!(captures[19], n)).unwrap();
            }
        });
        assert_eq!((count, pool.stats().panicked), (1000, 0));
    });
}

#[test]
fn a_small_argument_allocates_nothing_and_a_large_argument_allocates_once() {
    fn allocations<const SIZE: usize>() -> usize {
        let pool = FuncPool::builder(|(bytes, gate): ([u8; SIZE], Option<Gate>)| {
            assert_eq!(bytes[SIZE - 1], 1);
            if let Some(gate) = gate {
                gate.wait();
            }
        });
        let pool = pool.capacity(2).min_workers(2).queue_depth(1000);
        let pool = pool.start_hook(look).build().unwrap();
        let count = when_warm(|| {
            cost(
                |gate| pool.submit(([1; SIZE], Some(gate))).unwrap(),
                || (0..1000).for_each(|_| pool.submit(([1; SIZE], None)).unwrap()),
                || pool.wait_idle().unwrap(),
            )
        });
        assert_eq!(pool.stats().panicked, 0);
        count
    }
    alone(|| {
        assert_eq!(allocations::<48>(), 0);
        let large = allocations::<300>();
        assert!(
            (1000..=1002).contains(&large),
            "two of the tasks hold the workers: {large}"
        );
    });
}

#[test]
fn spawning_and_joining_allocates_once() {
    alone(|| {
        let pool = pool(0);
        let count = when_warm(|| {
            let before = COUNT.load(SeqCst);
            look();
            for n in 0..1000_usize {
                let captures = [n; 20];
                let handle = pool.spawn(move || captures[19]).unwrap();
                assert_eq!(handle.join().unwrap(), n);
            }
            LOOKED_AT.set(false);
            COUNT.load(SeqCst) - before
        });
        assert_eq!(count, 1000);
    });
}

#[test]
fn the_options_of_a_task_are_one_allocation() {
    alone(|| {
        let pool = pool(1000);
        let token = CancelToken::new();
        let late = Instant::now() + LIMIT;
        let count = cost_when_warm(&pool, || {
            for n in 0..250_usize {
                let task = || pool.task().name("named").start_before(late);
                let (small, large) = ([n; 5], [n; 6]);
                task().submit(move || small[4]).unwrap();
                task().submit(move || large[5]).unwrap();
                drop(task().cancelled_by(&token).spawn(move || n).unwrap());
            }
        });
        assert_eq!((count, pool.stats().panicked), (250 + 500 + 500, 0));
    });
}

/// An allocator has no fast path for these.
#[test]
fn no_task_and_no_waiter_is_allocated_with_the_alignment_of_a_cache_line() {
    alone(|| {
        let options = Pool::builder().capacity(2).queue_depth(1000);
        let options = options.priorities(true).start_hook(look).build().unwrap();
        let token = CancelToken::new();
        let full = pool(0);
        let gate = Gate::new();
        for _ in 0..2 {
            let gate = gate.clone();
            full.submit(move || gate.wait()).unwrap();
        }
        let late = Instant::now() + LIMIT;
        let aligned = when_warm(|| {
            let before = ALIGNED.load(SeqCst);
            look();
            for n in 0..500_usize {
                let captures = [n; 20];
                options.task().name("named").submit(|| ()).unwrap();
                let task = options.task().cancelled_by(&token).priority(Priority::High);
                task.submit(move || captures[19]).unwrap();
                let task = options.task().start_before(late);
                task.spawn(move || captures[19]).unwrap().join().unwrap();
                let mut waits = pin!(full.submit_async(|| ()));
                let mut context = Context::from_waker(Waker::noop());
                assert!(waits.as_mut().poll(&mut context).is_pending());
                full.submit_timeout(|| (), Duration::ZERO).unwrap_err();
            }
            options.wait_idle().unwrap();
            LOOKED_AT.set(false);
            ALIGNED.load(SeqCst) - before
        });
        gate.open();
        assert_eq!(aligned, 0);
    });
}

#[test]
fn cancelling_does_not_allocate() {
    alone(|| {
        let pool = pool(500);
        let count = cost_when_warm(&pool, || {
            for _ in 0..500 {
                assert!(pool.spawn(|| ()).unwrap().cancel());
            }
        });
        assert_eq!(count, 500);
    });
}

#[test]
fn a_spawn_that_a_full_pool_refuses_allocates_nothing() {
    alone(|| {
        let pool = pool(0);
        let gate = Gate::new();
        for _ in 0..2 {
            let gate = gate.clone();
            pool.submit(move || gate.wait()).unwrap();
        }
        gate.wait_for_arrivals(2);
        let before = COUNT.load(SeqCst);
        look();
        (0..100).for_each(|_| assert!(pool.try_spawn(|| ()).unwrap_err().is_full()));
        LOOKED_AT.set(false);
        assert_eq!(
            (COUNT.load(SeqCst) - before, pool.stats().refused),
            (0, 100)
        );
        gate.open();
    });
}

#[test]
fn a_worker_that_sleeps_frees_the_memory_of_a_backlog_down_to_a_bound() {
    alone(|| {
        let pool = pool(QueueDepth::Unlimited);
        let backlog = |tasks: usize| {
            cost_when_warm(&pool, || {
                (0..tasks).for_each(|_| pool.submit(|| ()).unwrap());
                assert!(IN_USE.load(SeqCst) >= tasks * 32);
            })
        };
        backlog(100_000);
        while IN_USE.load(SeqCst) > 1_000_000 {
            std::thread::yield_now();
        }
        assert_eq!(backlog(1000), 0);
    });
}

//! What a task costs in allocations. A binary of its own, for an allocator of its own.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pool_core::{FuncPool, Pool, QueueDepth};
use testkit::{LIMIT, watchdog};

/// The system's allocator; counts what is allocated on the threads that are looked at.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local!(static LOOKED_AT: Cell<bool> = const { Cell::new(false) });

// SAFETY: the system's allocator with a counter beside it, which allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if LOOKED_AT.get() {
            COUNT.fetch_add(1, SeqCst);
        }
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if LOOKED_AT.get() {
            COUNT.fetch_add(1, SeqCst);
        }
        // SAFETY: the caller's.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test counts at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The allocations of this thread and of the pools' workers during the call.
fn allocations(call: impl FnOnce()) -> usize {
    let before = COUNT.load(SeqCst);
    LOOKED_AT.set(true);
    call();
    LOOKED_AT.set(false);
    COUNT.load(SeqCst) - before
}

fn look() {
    LOOKED_AT.set(true);
}

/// Workers are there already, and stay.
fn pool(depth: impl Into<QueueDepth>) -> Pool {
    let pool = Pool::builder()
        .capacity(2)
        .min_workers(2)
        .queue_depth(depth);
    pool.keep_alive(Duration::MAX)
        .start_hook(look)
        .build()
        .unwrap()
}

/// Runs the call until it has warmed everything up, then counts.
fn when_warm(mut call: impl FnMut()) -> usize {
    call();
    call();
    allocations(call)
}

#[test]
fn submitting_a_small_closure_allocates_nothing() {
    let _alone = alone();
    watchdog(LIMIT, || {
        let pool = pool(1000);
        let count = when_warm(|| {
            for n in 0..1000_usize {
                let captures = [n; 6];
                pool.submit(move || assert_eq!(captures[5], n)).unwrap();
            }
            while pool.in_flight() > 0 {
                std::thread::yield_now();
            }
        });
        assert_eq!((count, pool.stats().panicked), (0, 0));
    });
}

#[test]
fn submitting_a_large_closure_allocates_once() {
    let _alone = alone();
    watchdog(LIMIT, || {
        let pool = pool(1000);
        let count = when_warm(|| {
            for n in 0..1000_usize {
                let captures = [n; 20];
                pool.submit(move || assert_eq!(captures[19], n)).unwrap();
            }
            while pool.in_flight() > 0 {
                std::thread::yield_now();
            }
        });
        assert_eq!((count, pool.stats().panicked), (1000, 0));
    });
}

#[test]
fn an_argument_of_any_size_allocates_nothing() {
    let _alone = alone();
    watchdog(LIMIT, || {
        let pool = FuncPool::builder(|bytes: [u8; 300]| assert_eq!(bytes[299], 1));
        let pool = pool
            .capacity(2)
            .min_workers(2)
            .queue_depth(1000)
            .start_hook(look);
        let pool = pool.keep_alive(None).build().unwrap();
        let count = when_warm(|| {
            for _ in 0..1000 {
                pool.submit([1; 300]).unwrap();
            }
            while pool.in_flight() > 0 {
                std::thread::yield_now();
            }
        });
        assert_eq!((count, pool.stats().panicked), (0, 0));
    });
}

#[test]
fn spawning_and_joining_allocates_once() {
    let _alone = alone();
    watchdog(LIMIT, || {
        let pool = pool(0);
        let count = when_warm(|| {
            for n in 0..1000_usize {
                let captures = [n; 20];
                let handle = pool.spawn(move || captures[19]).unwrap();
                assert_eq!(handle.join().unwrap(), n);
            }
        });
        assert_eq!(count, 1000);
    });
}

#[test]
fn cancelling_allocates_nothing_more() {
    let _alone = alone();
    watchdog(LIMIT, || {
        let pool = pool(1000);
        let count = when_warm(|| {
            for _ in 0..500 {
                let handle = pool.spawn(|| ()).unwrap();
                handle.cancel();
                drop(handle);
            }
            while pool.in_flight() > 0 {
                std::thread::yield_now();
            }
        });
        assert_eq!(count, 500);
    });
}

#[test]
fn the_memory_of_a_backlog_is_given_back() {
    let _alone = alone();
    watchdog(LIMIT, || {
        // A backlog beyond what is kept for reuse allocates each time it comes.
        let pool = pool(QueueDepth::Unlimited);
        let fill = |tasks: usize| {
            let gate = testkit::Gate::new();
            for _ in 0..2 {
                let gate = gate.clone();
                pool.submit(move || gate.wait()).unwrap();
            }
            gate.wait_for_arrivals(2);
            let count = allocations(|| (0..tasks).for_each(|_| pool.submit(|| ()).unwrap()));
            gate.open();
            pool.wait_idle().unwrap();
            count
        };
        fill(100_000);
        assert_eq!(fill(1000), 0, "as much is kept");
        assert!(fill(100_000) > 100, "and no more");
    });
}

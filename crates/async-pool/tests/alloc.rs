//! Allocations, bytes and context switches per task. A separate binary, because it replaces the global allocator and counts
//! for the whole process.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_pool::{AsyncPool, ManualClock};
use testkit::{LIMIT, watchdog};

/// The system's allocator. Counts the allocations and the bytes in use on all threads.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards to the system's allocator. The counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, SeqCst);
        let in_use = IN_USE.fetch_add(layout.size(), SeqCst) + layout.size();
        PEAK.fetch_max(in_use, SeqCst);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TASKS: usize = 10_000;
// Shorter than the rest after which workers free memory.
const NAP: Duration = Duration::from_millis(10);

/// Runs one test at a time, under a watchdog.
fn alone(test: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    watchdog(LIMIT, test);
}

/// A pool with one worker, so that each round uses the same queues, and its clock.
fn pool() -> (AsyncPool, ManualClock) {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder().workers(1).clock(clock.clone()).build();
    (pool.unwrap(), clock)
}

/// The sleep begins on a worker, by the pool's clock.
async fn nap() {
    async_pool::sleep(NAP).await;
}

/// Waits until all tasks are suspended. The worker runs a task that was submitted later after them.
fn wait_until_parked(pool: &AsyncPool) {
    pool.spawn(async {}).unwrap().join().unwrap();
}

/// Allocations per round in which as many tasks start and end. The minimum of several rounds: queues grow in the first
/// ones.
fn allocations(mut round: impl FnMut()) -> usize {
    let counts = (0..5).map(|_| {
        let before = COUNT.load(SeqCst);
        round();
        COUNT.load(SeqCst) - before
    });
    counts.min().unwrap()
}

#[test]
fn a_submitted_task_that_sleeps_allocates_once() {
    alone(|| {
        let (pool, clock) = pool();
        let count = allocations(|| {
            (0..TASKS).for_each(|_| pool.submit(nap()).unwrap());
            wait_until_parked(&pool);
            clock.advance(NAP);
            pool.wait_idle().unwrap();
        });
        // One more for `wait_until_parked`, and few for the waits of this thread.
        assert!((TASKS..TASKS + 10).contains(&count), "{count}");
    });
}

#[test]
fn spawning_and_joining_allocates_once() {
    alone(|| {
        let (pool, _) = pool();
        let count = allocations(|| {
            for number in 0..TASKS {
                let handle = pool.spawn(async move { number }).unwrap();
                assert_eq!(handle.join().unwrap(), number);
            }
        });
        assert_eq!(count, TASKS);
    });
}

#[test]
fn a_refused_task_allocates_once() {
    alone(|| {
        let pool = AsyncPool::builder().workers(1).capacity(1);
        let pool = pool.build().unwrap();
        pool.submit(std::future::pending::<()>()).unwrap();
        let count = allocations(|| {
            (0..TASKS).for_each(|_| assert!(pool.try_submit(async {}).unwrap_err().is_full()));
        });
        assert_eq!(count, TASKS);
        pool.release_now();
    });
}

#[test]
fn a_parked_task_takes_a_bounded_number_of_bytes() {
    fn bytes<F: Future<Output = ()> + Send + 'static>(make: impl Fn() -> F) -> usize {
        let (pool, _) = pool();
        wait_until_parked(&pool);
        let before = IN_USE.load(SeqCst);
        (0..TASKS).for_each(|_| pool.submit(make()).unwrap());
        wait_until_parked(&pool);
        let bytes = IN_USE.load(SeqCst) - before;
        pool.release_now();
        pool.wait_released().unwrap();
        bytes / TASKS
    }
    alone(|| {
        // Tables and queues are included. They may have twice as many places as tasks.
        let waits = bytes(std::future::pending);
        assert!(waits <= 160, "{waits}");
        let sleeps = bytes(nap);
        assert!(sleeps <= 300, "{sleeps}");
    });
}

/// How often the workers of the pool named so have gone to sleep. Threads of other tests come and go.
#[cfg(target_os = "linux")]
fn switches() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let each = threads.flatten().filter_map(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        if !name.starts_with("switches-") {
            return None;
        }
        let count = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim().parse::<usize>().ok()
    });
    each.sum()
}

#[cfg(target_os = "linux")]
#[test]
fn timers_that_are_due_together_cost_few_context_switches() {
    alone(|| {
        let clock = ManualClock::new();
        let pool = AsyncPool::builder().name("switches").workers(2);
        let pool = pool.clock(clock.clone()).build().unwrap();
        let rounds = (0..5).map(|_| {
            let when = async_pool::Clock::now(&clock) + NAP;
            (0..TASKS).for_each(|_| pool.submit(async_pool::sleep_until(when)).unwrap());
            clock.wait_for_sleepers(1);
            let before = switches();
            clock.advance(NAP);
            pool.wait_idle().unwrap();
            switches() - before
        });
        let fewest = rounds.min().unwrap();
        assert!(fewest <= TASKS / 50, "{fewest}");
    });
}

#[test]
fn timers_that_are_due_together_take_no_memory_of_their_own() {
    alone(|| {
        let (pool, clock) = pool();
        (0..TASKS).for_each(|_| pool.submit(nap()).unwrap());
        wait_until_parked(&pool);
        let before = IN_USE.load(SeqCst);
        PEAK.store(before, SeqCst);
        clock.advance(NAP);
        pool.wait_idle().unwrap();
        let more = PEAK.load(SeqCst) - before;
        assert!(more < 16 * TASKS / 4, "{more} bytes");
    });
}

#[test]
fn a_pool_at_rest_frees_the_memory_of_a_million_tasks() {
    alone(|| {
        let (pool, clock) = pool();
        pool.spawn(nap()).unwrap().cancel();
        pool.wait_idle().unwrap();
        let before = IN_USE.load(SeqCst);
        for many in [100, 10, 10] {
            (0..many * TASKS).for_each(|_| pool.submit(nap()).unwrap());
            wait_until_parked(&pool);
            clock.advance(NAP);
            pool.wait_idle().unwrap();
        }
        // The worker looks twice: once to see that there is more than it needs, once half a second later.
        loop {
            clock.advance(Duration::from_millis(600));
            let left = IN_USE.load(SeqCst).saturating_sub(before);
            if left < 16 * 1_024 {
                break;
            }
            std::thread::yield_now();
        }
    });
}

#[test]
fn waits_that_a_task_gives_up_leave_no_memory() {
    alone(|| {
        let pool = AsyncPool::builder().workers(1).capacity(2).build().unwrap();
        let inner = pool.clone();
        let growth = pool.spawn(async move {
            let child = inner.spawn(std::future::pending::<()>()).unwrap();
            let give_up = async |times: usize| {
                for _ in 0..times {
                    // The pool is full, and this task has a live child.
                    let wait = futures_lite::future::poll_once(inner.reserve_async());
                    assert!(wait.await.is_none());
                }
                IN_USE.load(SeqCst)
            };
            let before = give_up(2 * TASKS).await;
            let after = give_up(10 * TASKS).await;
            child.cancel();
            after.saturating_sub(before)
        });
        let growth = growth.unwrap().join().unwrap();
        assert!(growth < 16 * TASKS, "{growth} bytes");
    });
}

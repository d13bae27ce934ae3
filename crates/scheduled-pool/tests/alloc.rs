//! Memory that ended schedules leave in use. A separate binary, because it replaces the global
//! allocator.
#![cfg(not(anthill_loom))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pool_core::{ManualClock, Pool};
use scheduled_pool::{ScheduledHandle, ScheduledPool};
use testkit::{LIMIT, watchdog};

/// The system's allocator. Counts the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards to the system's allocator. The counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
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
        IN_USE.fetch_add(size, SeqCst);
        IN_USE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SCHEDULES: usize = 50_000;
/// The timer keeps memory for a few schedules.
const LITTLE: usize = 1_000_000;

/// Runs `test` with a scheduled pool, under a watchdog. Returns how much the bytes in use have
/// grown.
fn grows(test: impl FnOnce(&ManualClock, &ScheduledPool)) -> usize {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    watchdog(LIMIT, || {
        let clock = ManualClock::new();
        let pool = Pool::builder().capacity(1).keep_alive(None);
        let pool = pool.clock(clock.clone()).build().unwrap();
        let scheduled = ScheduledPool::new(pool);
        let series = scheduled.spawn_at_fixed_rate(Duration::MAX, Duration::MAX, || ());
        let before = IN_USE.load(SeqCst);
        test(&clock, &scheduled);
        let after = IN_USE.load(SeqCst);
        assert!(series.unwrap().cancel());
        scheduled.release();
        scheduled.wait_released().unwrap();
        after.saturating_sub(before)
    })
}

fn schedule(scheduled: &ScheduledPool) -> Vec<ScheduledHandle<()>> {
    let before = IN_USE.load(SeqCst);
    let handles = (0..SCHEDULES)
        .map(|number| {
            let delay = Duration::from_secs(600 + (number as u64 * 31) % 977);
            scheduled.spawn_after(delay, || ()).unwrap()
        })
        .collect();
    assert!(
        IN_USE.load(SeqCst) - before > 8 * LITTLE,
        "the schedules use memory"
    );
    handles
}

#[test]
fn cancelled_schedules_use_no_memory_afterwards() {
    for oldest_first in [false, true] {
        let left = grows(|_, scheduled| {
            for _ in 0..2 {
                let mut handles = schedule(scheduled);
                if oldest_first {
                    handles.reverse();
                }
                while let Some(handle) = handles.pop() {
                    assert!(handle.cancel());
                }
            }
        });
        assert!(left < LITTLE, "{left} bytes are kept");
    }
}

#[test]
fn ended_schedules_use_no_memory_afterwards() {
    let left = grows(|clock, scheduled| {
        let handles = schedule(scheduled);
        let last = handles.len() as u64;
        drop(handles);
        // In steps that end before the next one begins, because the pool keeps the memory of a long
        // wait queue.
        for seconds in (600..=1600).step_by(50) {
            let due = (0..last).filter(|number| 600 + (number * 31) % 977 <= seconds);
            let due = due.count() as u64;
            clock.advance(Duration::from_secs(if seconds == 600 { 600 } else { 50 }));
            while scheduled.stats().ended < due {
                std::thread::yield_now();
            }
        }
        assert_eq!(scheduled.stats().ended, last);
    });
    assert!(left < LITTLE, "{left} bytes are kept");
}

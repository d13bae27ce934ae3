//! Memory that finished keys, failures, waiters and drains leave in use. A separate binary, because
//! it replaces the global allocator.
#![cfg(not(anthill_loom))]
#![expect(clippy::unwrap_used, reason = "a test fails with its helper")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hash::RandomState;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use dedup_queue::{
    Clock, DedupRetryQueue, Exponential, GetError, KeyQueue, ManualClock, Metrics, Retrying,
};

/// The system's allocator. Counts the bytes in use per thread.
struct Counting;

thread_local!(static IN_USE: Cell<isize> = const { Cell::new(0) });

fn count(old: usize, new: usize) {
    IN_USE.set(IN_USE.get() + new.cast_signed() - old.cast_signed());
}

// SAFETY: forwards to the system's allocator. The counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), size);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Queue = KeyQueue<u32, RandomState, ManualClock, Retrying>;

/// Keys that succeed, fail or wait. A few chunks of records and tree nodes may remain.
const MANY: u32 = 50_000;
const LITTLE: isize = 150_000;
const MS: Duration = Duration::from_millis(1);

struct Silent;
impl Metrics for Silent {}

fn queue(metered: bool) -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    let builder = DedupRetryQueue::<u32>::builder()
        .clock(clock.clone())
        .limiter(Exponential::new(MS, MS))
        .failure_expiry(MS);
    let queue = if metered {
        builder.metrics(Silent).build()
    } else {
        builder.build()
    };
    (queue, clock)
}

/// Runs the closure on a queue with one held key, and a delayed key that was added after half of
/// the others.
fn nothing_stays(what: &str, metered: bool, run: fn(&Queue, &ManualClock)) {
    let (queue, clock) = queue(metered);
    let before = IN_USE.get();
    run(&queue, &clock);
    let kept = IN_USE.get() - before;
    assert!(kept < LITTLE, "{what}: {kept} bytes are kept");
    drop(queue.drain_timeout(clock.now()));
}

/// Adds this many keys, and after half of them one key that stays.
fn add_all(queue: &Queue, mut add: impl FnMut(u32)) {
    (0..MANY / 2).for_each(&mut add);
    queue.add_after(MANY, Duration::MAX).unwrap();
    (MANY / 2..MANY).for_each(add);
}

#[test]
fn finished_keys_use_no_memory_while_another_is_held() {
    for metered in [false, true] {
        nothing_stays("taken", metered, |queue, _| {
            add_all(queue, |key| _ = queue.add(key).unwrap());
            while let Ok(held) = queue.try_get() {
                held.done();
            }
        });
        nothing_stays("next to a held one", metered, |queue, _| {
            add_all(queue, |key| _ = queue.add(key).unwrap());
            let mut kept = None;
            while let Ok(held) = queue.try_get() {
                if *held == MANY - 1 {
                    kept = Some(held);
                }
            }
            std::mem::forget(kept);
        });
        nothing_stays("removed", metered, |queue, _| {
            add_all(queue, |key| _ = queue.add(key).unwrap());
            (0..MANY).for_each(|key| _ = queue.remove(&key).unwrap());
        });
        nothing_stays("fallen due", metered, |queue, clock| {
            add_all(queue, |key| _ = queue.add_after(key, MS).unwrap());
            clock.advance(MS);
            while queue.try_get().is_ok() {}
        });
        nothing_stays("failed, and forgotten later", metered, |queue, clock| {
            add_all(queue, |key| _ = queue.add(key).unwrap());
            while let Ok(held) = queue.try_get() {
                held.retry();
            }
            clock.advance(MS);
            while queue.try_get().is_ok() {}
            assert_eq!(queue.stats().resting, MANY as usize);
            clock.advance(MS);
            assert_eq!(queue.stats().resting, 0);
        });
        nothing_stays("failed, and succeeded", metered, |queue, clock| {
            add_all(queue, |key| _ = queue.add_rate_limited(key).unwrap());
            clock.advance(MS);
            while let Ok(held) = queue.try_get() {
                held.succeed();
            }
        });
    }
}

#[test]
fn keys_returned_by_a_drain_use_no_memory() {
    nothing_stays("left over", false, |queue, clock| {
        add_all(queue, |key| _ = queue.add(key).unwrap());
        (0..MANY).for_each(|key| _ = queue.add_after(key + MANY, MS).unwrap());
        let held = queue.get().unwrap();
        let left = queue.drain_timeout(clock.now()).leftovers.unwrap();
        assert_eq!(left.ready.len(), MANY as usize - 1);
        drop(held);
    });
}

#[test]
fn timed_out_and_dropped_waits_use_no_memory() {
    fn poll<F: Future + Unpin>(future: &mut F) {
        let polled = Pin::new(future).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }
    fn dropped<F: Future + Unpin>(wait: impl Fn() -> F, meanwhile: impl FnOnce()) {
        let mut futures: Vec<_> = (0..MANY).map(|_| wait()).collect();
        futures.iter_mut().for_each(poll);
        meanwhile();
    }
    nothing_stays("futures that wait", false, |queue, _| {
        dropped(|| queue.get_async(), || ());
    });
    nothing_stays("futures that were notified", false, |queue, _| {
        dropped(
            || queue.get_async(),
            || (0..MANY).for_each(|key| _ = queue.add(key).unwrap()),
        );
        while queue.try_get().is_ok() {}
    });
    nothing_stays("drains that wait", false, |queue, _| {
        queue.add(0).unwrap();
        dropped(|| queue.drain_async(), || ());
    });
    nothing_stays("drains that were answered", false, |queue, _| {
        queue.add(0).unwrap();
        dropped(|| queue.drain_async(), || queue.get().unwrap().done());
    });
    nothing_stays("waits for idleness", false, |queue, _| {
        queue.add(0).unwrap();
        dropped(|| queue.wait_idle_async(), || ());
        dropped(|| queue.wait_idle_async(), || queue.get().unwrap().done());
    });
    nothing_stays("threads at their deadlines", false, |queue, clock| {
        for _ in 0..MANY {
            let timed_out = queue.get_timeout(clock.now());
            assert!(matches!(timed_out, Err(GetError::TimedOut)));
        }
    });
}

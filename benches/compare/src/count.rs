//! A count of finished tasks that shares no cache line between threads.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A counter on its own cache line.
#[repr(align(128))]
struct Slot(AtomicU64);

/// Further threads share counters. With that many threads, each is rarely on a core.
static SLOTS: [Slot; 1024] = [const { Slot(AtomicU64::new(0)) }; 1024];

/// An empty task. It captures one word, like the smallest real tasks: a closure without captures
/// has size zero, and boxing it costs nothing.
#[inline]
pub fn task() -> impl FnOnce() + Send + 'static {
    let word = black_box(1_u64);
    move || {
        black_box(word);
        bump();
    }
}

/// Called by each task at its end.
#[inline]
pub fn bump() {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let mut mine = MINE.get();
    if mine == usize::MAX {
        mine = NEXT.fetch_add(1, Relaxed) % SLOTS.len();
        MINE.set(mine);
    }
    SLOTS[mine].0.fetch_add(1, Relaxed);
}

/// Returns the number of tasks that have ended in this process.
pub fn bumps() -> u64 {
    SLOTS.iter().map(|slot| slot.0.load(Relaxed)).sum()
}

/// Sleeps until `target` tasks have ended.
///
/// It checks every 100 microseconds. The error is some hundred microseconds in a section of some
/// hundred milliseconds. Spinning would take a core from the pool, and counting down a single word
/// would make all tasks share its cache line.
pub fn wait_for(target: u64) {
    while bumps() < target {
        thread::sleep(Duration::from_micros(100));
    }
}

//! A count of finished tasks that shares no cache line between threads.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// One counter on cache lines of its own.
#[repr(align(128))]
struct Slot(AtomicU64);

/// More threads than that share: with so many, none is often on a core.
static SLOTS: [Slot; 1024] = [const { Slot(AtomicU64::new(0)) }; 1024];

/// An empty task. It carries one word, as the least of real tasks do: a closure without captures
/// has no size, and to box it costs nothing.
#[inline]
pub fn task() -> impl FnOnce() + Send + 'static {
    let word = black_box(1_u64);
    move || {
        black_box(word);
        bump();
    }
}

/// The last thing that a task does.
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

/// How many tasks have ended in this process.
pub fn bumps() -> u64 {
    SLOTS.iter().map(|slot| slot.0.load(Relaxed)).sum()
}

/// Sleeps until `target` tasks have ended.
///
/// It looks every 100 microseconds: the error is some hundred microseconds in a section of some
/// hundred milliseconds. To spin instead would take a core from the pool; to let tasks count
/// down one word would make all of them share its cache line.
pub fn wait_for(target: u64) {
    while bumps() < target {
        thread::sleep(Duration::from_micros(100));
    }
}

//! Values whose drops are counted, and values whose drops panic.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};

/// Hands out [`Counted`] values and knows how many of them are gone. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct DropCounter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

/// A value that counts its own drop. Put it into a closure's captures.
#[derive(Debug)]
pub struct Counted(DropCounter);

impl DropCounter {
    /// Nothing handed out yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more value to be dropped.
    pub fn token(&self) -> Counted {
        self.0.made.fetch_add(1, Release);
        Counted(self.clone())
    }

    /// How many have been dropped. What happened before a drop is visible to a reader that counts it.
    pub fn dropped(&self) -> usize {
        self.0.dropped.load(Acquire) // Pairs with the Release in `Counted::drop`.
    }

    /// How many have been handed out and not been dropped.
    pub fn alive(&self) -> usize {
        let dropped = self.dropped(); // First, so that the difference is never negative.
        self.0.made.load(Acquire) - dropped // Pairs with the Release in `token`.
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.dropped.fetch_add(1, Release); // Pairs with the Acquire in `dropped`.
    }
}

/// A value that panics when it is dropped, with a payload that does the same, and so on.
///
/// It stays quiet while its thread is already unwinding: a second panic there aborts the process
/// by Rust's own rules, whatever the code under test does.
#[derive(Debug)]
pub struct PanicOnDrop(usize);

impl PanicOnDrop {
    /// Panics on its drop, with an ordinary payload.
    pub fn new() -> Self {
        Self::nested(1)
    }

    /// Panics on its drop; so do the next `levels - 1` payloads. `nested(0)` is harmless.
    pub fn nested(levels: usize) -> Self {
        Self(levels)
    }
}

impl Default for PanicOnDrop {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        match self.0 {
            0 => {}
            1 => panic!("dropped a PanicOnDrop"),
            levels => panic_any(Self(levels - 1)),
        }
    }
}

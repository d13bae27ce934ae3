//! Values whose drops are counted, and values whose drops panic.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};

/// Creates [`Counted`] values, and counts their drops. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct DropCounter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

/// A value that counts its own drop, for example as a capture.
#[derive(Debug)]
pub struct Counted(DropCounter);

impl DropCounter {
    /// Creates a counter at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a value that counts its drop.
    pub fn token(&self) -> Counted {
        self.0.made.fetch_add(1, Release);
        Counted(self.clone())
    }

    /// Returns the number of dropped values. Synchronizes with the drops that it counts.
    pub fn dropped(&self) -> usize {
        self.0.dropped.load(Acquire) // Pairs with the Release in `Counted::drop`.
    }

    /// Returns the number of live values.
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
/// It does not panic while its thread is unwinding, because a second panic would abort the process.
#[derive(Debug)]
pub struct PanicOnDrop(usize);

impl PanicOnDrop {
    /// Creates a value whose drop panics with an ordinary payload.
    pub fn new() -> Self {
        Self::nested(1)
    }

    /// Creates a value whose drop panics, and so do those of the next `levels - 1` payloads.
    /// `nested(0)` does not panic.
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

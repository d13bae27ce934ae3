//! Numbers that are unique among the heaps of a process.
//!
//! The only place outside of `sync-shim` that uses `core`'s atomics, because the heap is built
//! without `std`. The counter publishes nothing, so there is nothing to model.
#![allow(
    clippy::disallowed_types,
    reason = "the heap is built without `std`, so without `sync-shim`"
)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Returns a number that no other call has returned (with 64 bits; with 32 bits numbers repeat
/// after four thousand million calls).
pub(super) fn number() -> u64 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: a counter. No other memory is read because of it.
    NEXT.fetch_add(1, Relaxed) as u64
}

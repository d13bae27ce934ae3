//! Numbers that no two heaps of a process share.
//!
//! Here alone the workspace names `core`'s atomics outside of `sync-shim`, because the heap is
//! built without `std`. Nothing is published through the counter, so there is nothing to model.
#![allow(
    clippy::disallowed_types,
    reason = "the heap is built without `std`, so without `sync-shim`"
)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A number that no other call has returned (on 64 bits; on 32 after four thousand million
/// calls they begin again).
pub(super) fn number() -> u64 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // A counter: no other memory is read because of it.
    NEXT.fetch_add(1, Relaxed) as u64
}

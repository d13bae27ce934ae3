//! A counting allocator for tests of memory. It counts all threads, so such a test needs its own
//! binary.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Allocated bytes in use.
pub static BYTES: AtomicUsize = AtomicUsize::new(0);
/// The maximum of [`BYTES`]. A test may reset it.
pub static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with counters.
#[derive(Debug)]
pub struct CountingAllocator;

// SAFETY: forwards to the system's allocator. The counters do not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = BYTES.fetch_add(layout.size(), SeqCst) + layout.size();
        PEAK.fetch_max(bytes, SeqCst);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) };
    }
}

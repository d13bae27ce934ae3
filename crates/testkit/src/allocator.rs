//! An allocator that counts, for tests of memory. Its counters see every thread, so such a test is alone in its binary.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The bytes that a [`CountingAllocator`] has given away and not taken back.
pub static BYTES: AtomicUsize = AtomicUsize::new(0);
/// The most that [`BYTES`] has been. A test may set it back.
pub static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with counters.
#[derive(Debug)]
pub struct CountingAllocator;

// SAFETY: the system's allocator with counters beside it, which allocate nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = BYTES.fetch_add(layout.size(), SeqCst) + layout.size();
        PEAK.fetch_max(bytes, SeqCst);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller's.
        unsafe { System.dealloc(memory, layout) };
    }
}

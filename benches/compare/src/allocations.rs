//! Counts heap allocations on request.
//!
//! While counting is off, an allocation costs one load of a word that is never written.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

static ON: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn note() {
    // Statistics: no other memory is read because of them.
    if ON.load(Relaxed) {
        COUNT.fetch_add(1, Relaxed);
    }
}

// SAFETY: forwards every call unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns the number of allocations that all threads make while `section` runs.
pub fn during(section: impl FnOnce()) -> u64 {
    let before = COUNT.load(Relaxed);
    ON.store(true, Relaxed);
    section();
    ON.store(false, Relaxed);
    COUNT.load(Relaxed) - before
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_box_is_one_allocation_or_more_if_other_tests_allocate_too() {
        let counted = super::during(|| drop(std::hint::black_box(Box::new(7))));
        assert!(counted >= 1);
    }
}

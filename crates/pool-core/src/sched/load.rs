//! A pool's figures, readable without its lock, for the strategy of a multi-pool.
//!
//! They may be stale, so admission does not use them: it decides by the exact count, under the lock.
//!
//! Only members of a multi-pool have load statistics, so other pools pay nothing for them. Entering tasks are
//! counted under the inbox's lock and ended tasks under the state's, so neither counter has two writers at a time.

use crossbeam_utils::CachePadded;
use sync_shim::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::capacity::{Capacity, QueueDepth, UNLIMITED, limit};

/// Load figures of one pool.
///
/// The fields that submitters write, the one that workers write and the rarely written ones are on separate cache
/// lines. A strategy that only asks whether a worker is free disturbs neither side.
// Relaxed throughout, because each figure stands alone: nothing else is read because of it.
#[derive(Debug)]
#[repr(align(128))]
pub struct LoadStats {
    entered: CachePadded<AtomicUsize>,
    left: CachePadded<AtomicUsize>,
    free: AtomicBool,
    live: AtomicUsize,
    capacity: AtomicUsize,
    depth: usize,
}

impl LoadStats {
    pub(crate) fn new(capacity: usize, depth: usize) -> Self {
        Self {
            entered: CachePadded::new(AtomicUsize::new(0)),
            left: CachePadded::new(AtomicUsize::new(0)),
            free: AtomicBool::new(capacity > 0),
            live: AtomicUsize::new(0),
            capacity: AtomicUsize::new(capacity),
            depth,
        }
    }

    #[inline]
    pub(crate) fn enter(&self) {
        // A load and a store instead of a read-modify-write: safe because the inbox's lock is held.
        let entered = self.entered.load(Relaxed);
        self.entered.store(entered.wrapping_add(1), Relaxed);
    }

    #[inline]
    pub(crate) fn leave(&self, tasks: usize) {
        // Likewise safe because the state's lock is held.
        let left = self.left.load(Relaxed);
        self.left.store(left.wrapping_add(tasks), Relaxed);
    }

    pub(crate) fn size(&self, live: usize, capacity: usize) {
        self.live.store(live, Relaxed);
        self.capacity.store(capacity, Relaxed);
    }

    /// Publishes whether a worker is free or may be started. Called with the inbox's lock held.
    #[inline]
    pub(crate) fn show_free(&self, free: bool) {
        // A store takes the line away from the readers, so it must not happen once per task.
        if self.free.load(Relaxed) != free {
            self.free.store(free, Relaxed);
        }
    }

    /// Whether fewer tasks are in flight than workers are allowed.
    // Not written while workers of a busy pool take their next task without a decision, because each of them
    // stays busy.
    #[inline]
    pub fn has_worker(&self) -> bool {
        self.free.load(Relaxed)
    }

    /// Whether another task would be accepted, at least into the queue.
    #[inline]
    pub fn has_room(&self) -> bool {
        let limit = limit(self.capacity.load(Relaxed), self.depth);
        limit == UNLIMITED || self.in_flight() < limit
    }

    /// Number of accepted, unfinished tasks.
    #[inline]
    pub fn in_flight(&self) -> usize {
        // In this order, because each task enters before it leaves: the difference should not be negative.
        let left = self.left.load(Relaxed);
        let entered = self.entered.load(Relaxed).wrapping_sub(left);
        // Two relaxed loads are not ordered, so a negative difference must be ruled out here.
        if entered > isize::MAX as usize {
            0
        } else {
            entered
        }
    }

    /// Number of started workers that have not ended.
    pub fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// Maximum number of workers.
    #[inline]
    pub fn capacity(&self) -> Capacity {
        Capacity::from_bound(self.capacity.load(Relaxed))
    }

    /// Maximum number of accepted tasks beyond the capacity.
    pub fn queue_depth(&self) -> QueueDepth {
        QueueDepth::from_bound(self.depth)
    }
}

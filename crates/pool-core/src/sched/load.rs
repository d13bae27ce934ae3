//! A pool's figures for those that do not take its lock: a multi-pool's choice among its pools.
//!
//! Not for: admission. That is decided under the lock by the exact count; here it may be stale.
//!
//! Only a multi-pool's member has load statistics, written in the sections that change the figures,
//! so that other pools pay nothing for it. What enters is counted under the inbox's lock and what
//! leaves under the state's, so that neither counter has two writers at a time.

use crossbeam_utils::CachePadded;
use sync_shim::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::capacity::{Capacity, QueueDepth, UNLIMITED, limit};

/// What submitters write, what workers write, and what seldom changes lie on cache lines of their
/// own: a strategy that only asks whether a worker is free takes no line away from either.
///
/// Relaxed throughout: each is a figure of its own, and nothing else is read because of it.
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
        // No read-modify-write: the inbox's lock is held.
        let entered = self.entered.load(Relaxed);
        self.entered.store(entered.wrapping_add(1), Relaxed);
    }

    #[inline]
    pub(crate) fn leave(&self, tasks: usize) {
        // The state's lock is held.
        let left = self.left.load(Relaxed);
        self.left.store(left.wrapping_add(tasks), Relaxed);
    }

    pub(crate) fn size(&self, live: usize, capacity: usize) {
        self.live.store(live, Relaxed);
        self.capacity.store(capacity, Relaxed);
    }

    /// Whether a worker is free or may be started. Written where the inbox's lock is held, and only
    /// if it changes.
    #[inline]
    pub(crate) fn show_free(&self, free: bool) {
        if self.free.load(Relaxed) != free {
            self.free.store(free, Relaxed);
        }
    }

    /// Whether fewer tasks are in flight than there may be workers. While workers of a busy pool go
    /// on to the next task this is not written, which changes nothing: each of them stays busy.
    #[inline]
    pub fn has_worker(&self) -> bool {
        self.free.load(Relaxed)
    }

    /// Whether one more task would be accepted, if only into the queue.
    #[inline]
    pub fn has_room(&self) -> bool {
        let limit = limit(self.capacity.load(Relaxed), self.depth);
        limit == UNLIMITED || self.in_flight() < limit
    }

    /// Accepted and unfinished tasks.
    #[inline]
    pub fn in_flight(&self) -> usize {
        // What left entered before: read in this order, the difference is never below zero.
        let left = self.left.load(Relaxed);
        let entered = self.entered.load(Relaxed).wrapping_sub(left);
        // But nothing orders two relaxed loads.
        if entered > isize::MAX as usize {
            0
        } else {
            entered
        }
    }

    /// Started workers that have not ended.
    pub fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// Workers there may be.
    #[inline]
    pub fn capacity(&self) -> Capacity {
        Capacity::from_bound(self.capacity.load(Relaxed))
    }

    /// Accepted tasks that may wait beyond the capacity.
    pub fn queue_depth(&self) -> QueueDepth {
        QueueDepth::from_bound(self.depth)
    }
}

//! A pool's figures for those that do not take its lock: a multi-pool's choice among its pools.
//!
//! Not for: admission. That is decided under the lock by the exact count; here it may be stale.
//!
//! Only a multi-pool's child has a gauge, written in the sections that change the figures, so
//! that other pools pay nothing for it.

use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::capacity::{Capacity, QueueDepth};

/// Aligned so that reading one child's figures takes no line away from another's.
///
/// Relaxed throughout: each is a figure of its own, and nothing else is read because of it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Gauge {
    in_flight: AtomicUsize,
    live: AtomicUsize,
    capacity: AtomicUsize,
    depth: usize,
}

impl Gauge {
    pub(crate) fn new(capacity: usize, depth: usize) -> Self {
        Self {
            in_flight: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            capacity: AtomicUsize::new(capacity),
            depth,
        }
    }

    #[inline]
    pub(crate) fn show(&self, in_flight: usize, live: usize, capacity: usize) {
        self.in_flight.store(in_flight, Relaxed);
        self.live.store(live, Relaxed);
        self.capacity.store(capacity, Relaxed);
    }

    /// Accepted and unfinished tasks.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
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

//! The set of parked workers, and the reason for which each was woken.

use std::collections::TryReserveError;
use std::sync::Arc;
use std::time::Instant;

use sync_shim::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use sync_shim::thread::JoinHandle;
use sync_shim::{Mutex, Parker};
use worker_queue::{IdleQueue, Reuse};

/// The part of a worker that other threads use.
pub(crate) struct WorkerCell {
    pub(crate) slot: usize,
    pub(crate) parker: Parker,
    wake_reason: AtomicU8,
    /// Whether the worker is in the list of those that parked without a timeout. Protected like `wake_reason`.
    untimed: AtomicBool,
    /// The worker's thread, for whoever joins it after its end.
    pub(crate) thread: Mutex<Option<JoinHandle>>,
}

/// Why a worker was taken out of the idle set. Read and written only under the pool's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// The worker is still in the idle set.
    Parked,
    /// The worker was notified of work. The section that did it counted the worker as searching.
    Work,
    /// The worker was retired. The section that did it counted the worker as leaving.
    Retire,
}

impl WorkerCell {
    pub(crate) fn new(slot: usize) -> Arc<Self> {
        Arc::new(Self {
            slot,
            parker: Parker::new(),
            wake_reason: AtomicU8::new(WakeReason::Work as u8),
            untimed: AtomicBool::new(false),
            thread: Mutex::new(None),
        })
    }

    // Relaxed, here and below, because the pool's lock orders all accesses.
    pub(crate) fn set_wake_reason(&self, reason: WakeReason) {
        self.wake_reason.store(reason as u8, Relaxed);
    }

    /// Returns the previous value.
    pub(crate) fn set_untimed(&self, untimed: bool) -> bool {
        let was = self.untimed.load(Relaxed);
        self.untimed.store(untimed, Relaxed);
        was
    }

    pub(crate) fn wake_reason(&self) -> WakeReason {
        match self.wake_reason.load(Relaxed) {
            reason if reason == WakeReason::Parked as u8 => WakeReason::Parked,
            reason if reason == WakeReason::Work as u8 => WakeReason::Work,
            _ => WakeReason::Retire,
        }
    }
}

/// The parked workers with the time at which each became idle. Protected by the pool's lock.
// `None` where no keep-alive is set, so that the clock is not read once per park.
pub(crate) struct IdleSet(IdleQueue<Arc<WorkerCell>, Option<Instant>>);

impl IdleSet {
    /// Creates a set that reuses the most recently parked worker: its caches are warm, and the others expire.
    pub(crate) fn stack() -> Self {
        Self(IdleQueue::stack())
    }

    /// Creates a set that reuses the worker parked for the longest time. Its memory is allocated ahead.
    pub(crate) fn ring(capacity: usize) -> Result<Self, TryReserveError> {
        IdleQueue::ring(capacity).map(Self)
    }

    pub(crate) fn is_ring(&self) -> bool {
        self.0.reuse() == Reuse::Oldest
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a worker. Returns the time from which it counts as idle.
    // Never before the time of its neighbours, since expiry relies on the order.
    pub(crate) fn push(
        &mut self,
        cell: &Arc<WorkerCell>,
        since: Option<Instant>,
    ) -> Option<Instant> {
        cell.set_wake_reason(WakeReason::Parked);
        self.0
            .push(Arc::clone(cell), since)
            .expect("a ring has a slot for each worker of the capacity, and no excess one parks")
    }

    /// Removes the worker to be notified next.
    pub(crate) fn pop(&mut self) -> Option<Arc<WorkerCell>> {
        let cell = self.0.pop()?;
        // In the section that takes it out: a worker whose timeout ends at the same time reads the reason, not the clock.
        cell.set_wake_reason(WakeReason::Work);
        Some(cell)
    }

    /// Removes, for retirement, at most `most` of the workers idle since `limit` or earlier.
    pub(crate) fn expire(&mut self, limit: Instant, most: usize) -> Vec<Arc<WorkerCell>> {
        retire(self.0.drain_expired(Some(limit), most))
    }

    /// Removes, for retirement, the `count` workers that have been idle for the longest time.
    pub(crate) fn retire_oldest(&mut self, count: usize) -> Vec<Arc<WorkerCell>> {
        retire(self.0.drain_oldest(count))
    }

    /// Resizes a ring to the maximum number of workers. The caller has retired the excess before.
    pub(crate) fn resize(&mut self, capacity: usize) -> Result<(), TryReserveError> {
        let evicted = self.0.resize(capacity)?;
        debug_assert!(
            evicted.is_empty(),
            "no more workers are parked than there may be"
        );
        Ok(())
    }
}

fn retire(cells: impl Iterator<Item = Arc<WorkerCell>>) -> Vec<Arc<WorkerCell>> {
    cells
        // As in `pop`, so that the retired worker learns of it even if it wakes up by itself.
        .inspect(|cell| cell.set_wake_reason(WakeReason::Retire))
        .collect()
}

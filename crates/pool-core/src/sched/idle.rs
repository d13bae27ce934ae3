//! Parked workers, oldest first to retire; and why a worker was woken.

use std::collections::TryReserveError;
use std::sync::Arc;
use std::time::Instant;

use sync_shim::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use sync_shim::thread::JoinHandle;
use sync_shim::{Mutex, Parker};
use worker_queue::{IdleQueue, Reuse};

/// One worker, as the others see it.
pub(crate) struct WorkerCell {
    pub(crate) slot: usize,
    pub(crate) parker: Parker,
    wake_reason: AtomicU8,
    /// It stands in the list of those that parked without a time-out. As `wake_reason`.
    untimed: AtomicBool,
    /// The worker's own thread, to be joined when it has ended.
    pub(crate) thread: Mutex<Option<JoinHandle>>,
}

/// Why a worker was taken out of the idle set. Read and written under the pool's lock only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// Nothing: it stands among the parked.
    Parked,
    /// It is searching, and counted so by the section that notified it.
    Work,
    /// It is leaving, and counted so by the section that retired it.
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

    // Relaxed, all of these: the pool's lock orders them.
    pub(crate) fn set_wake_reason(&self, reason: WakeReason) {
        self.wake_reason.store(reason as u8, Relaxed);
    }

    /// Whether it was.
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

/// The parked workers, each with the time since when it is idle (`None` where no keep-alive is
/// set: the clock is not read then). Held under the pool's lock.
pub(crate) struct IdleSet(IdleQueue<Arc<WorkerCell>, Option<Instant>>);

impl IdleSet {
    /// Reuses the most recently parked worker: few stay hot, the cold ones expire.
    pub(crate) fn stack() -> Self {
        Self(IdleQueue::stack())
    }

    /// Reuses the worker that has been parked the longest, from slots allocated ahead.
    pub(crate) fn ring(capacity: usize) -> Result<Self, TryReserveError> {
        IdleQueue::ring(capacity).map(Self)
    }

    pub(crate) fn is_ring(&self) -> bool {
        self.0.reuse() == Reuse::Oldest
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Parks a worker. Returns since when it counts as idle: never before its neighbours.
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

    /// Takes the worker to be woken for work.
    pub(crate) fn pop(&mut self) -> Option<Arc<WorkerCell>> {
        let cell = self.0.pop()?;
        cell.set_wake_reason(WakeReason::Work);
        Some(cell)
    }

    /// Takes out at most `most` of those idle since `limit` or longer, to be retired.
    pub(crate) fn expire(&mut self, limit: Instant, most: usize) -> Vec<Arc<WorkerCell>> {
        retire(self.0.drain_expired(Some(limit), most))
    }

    /// Takes out the `count` that have been idle the longest, to be retired.
    pub(crate) fn retire_oldest(&mut self, count: usize) -> Vec<Arc<WorkerCell>> {
        retire(self.0.drain_oldest(count))
    }

    /// Gives a ring as many slots as there may be workers. The excess was retired before.
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
        .inspect(|cell| cell.set_wake_reason(WakeReason::Retire))
        .collect()
}

//! A pool's figures, readable without its lock, for the strategy of a multi-pool.
//!
//! They may be stale, so admission does not use them: it decides by the exact count, under the lock.
//!
//! Only members of a multi-pool have load statistics, so other pools pay nothing for them. Entering tasks are
//! counted under the inbox's lock and ended tasks under the state's, so neither counter has two writers at a time.

use crossbeam_utils::CachePadded;
use sync_shim::atomic::Ordering::{Acquire, Relaxed, Release};
use sync_shim::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use sync_shim::thread::thread_number;

use crate::config::{Capacity, QueueDepth, UNLIMITED, limit};

/// Load figures of one pool.
///
/// The fields that submitters write, the one that workers write and the rarely written ones are on separate cache
/// lines. A strategy that only asks whether a worker is free disturbs neither side.
// Relaxed throughout, because each figure stands alone: nothing else is read because of it.
#[derive(Debug)]
#[repr(align(128))]
pub struct LoadStats {
    entered: CachePadded<Entered>,
    left: CachePadded<AtomicUsize>,
    free: AtomicBool,
    live: AtomicUsize,
    capacity: AtomicUsize,
    depth: usize,
}

/// Numbers of tasks, written by submitters only.
#[derive(Debug, Default)]
struct Entered {
    /// Through the first lane, under its lock.
    first: AtomicUsize,
    /// Through the others.
    others: AtomicUsize,
}

impl LoadStats {
    pub(crate) fn new(capacity: usize, depth: usize) -> Self {
        Self {
            entered: CachePadded::new(Entered::default()),
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
        let entered = self.entered.first.load(Relaxed);
        self.entered.first.store(entered.wrapping_add(1), Relaxed);
    }

    /// The same, under the lock of another lane, of which there are several.
    pub(crate) fn enter_other(&self) {
        self.entered.others.fetch_add(1, Relaxed);
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
        let entered = self.entered.first.load(Relaxed);
        let entered = entered.wrapping_add(self.entered.others.load(Relaxed));
        let entered = entered.wrapping_sub(left);
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

/// Outcome of an accepted task, as counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned.
    Completed,
    /// It panicked.
    Panicked,
    /// It was cancelled by its handle before it started, or by a token.
    Cancelled,
    /// It was not started in time.
    Expired,
    /// It was removed unstarted by a `release_now`.
    Released,
    /// It was discarded by a full pool.
    Discarded,
    /// Its handle removed it from the queue, freed its room, and counts it.
    Withdrawn,
    /// It goes on as another job in the queue, which has its room.
    Requeued,
}

/// Monotonic counters. Changed under the pool's lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) panicked: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
    pub(crate) released: u64,
    pub(crate) discarded: u64,
    pub(crate) refused: u64,
    pub(crate) started: u64,
    pub(crate) retired: u64,
    pub(crate) start_failures: u64,
    pub(crate) peak_live: usize,
}

impl Counts {
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::Panicked => self.panicked += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Expired => self.expired += 1,
            Outcome::Released => self.released += 1,
            Outcome::Discarded => self.discarded += 1,
            // Counted by the section that withdrew the task, or when its other job ends; otherwise it would count twice.
            Outcome::Withdrawn | Outcome::Requeued => {}
        }
    }
}

// Counters that many threads increment and that are rarely read.
//
// On one cache line the threads would take it from each other with each addition. So each thread uses one of a
// few lines (a striped counter, like Java's `LongAdder`). Threads that share a line lose speed, not counts.
//
// A sum is not a snapshot, so no decision may depend on it.

/// Number of cache lines. One in a model, since the sum cannot tell the difference.
const LINES: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// What is counted without the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Striped {
    Refused,
    /// Tasks that began to run inside another one.
    BegunInPlace,
    /// Those of them that have completed. Other outcomes are counted under the lock.
    CompletedInPlace,
}

pub(crate) struct StripedCounters([CachePadded<[AtomicU64; 3]>; LINES]);

impl StripedCounters {
    pub(crate) fn new() -> Self {
        let line = |_| CachePadded::new([0; 3].map(AtomicU64::new));
        Self(std::array::from_fn(line))
    }

    #[inline]
    #[cfg_attr(
        anthill_loom,
        expect(clippy::modulo_one, reason = "one line in a model")
    )]
    pub(crate) fn add_one(&self, to: Striped) {
        // Releasing, so that who finds a task completed finds that it has begun. Nothing else depends on the counts.
        self.0[thread_number() % LINES][to as usize].fetch_add(1, Release);
    }

    pub(crate) fn sum(&self, of: Striped) -> u64 {
        // Line by line, so the sum belongs to no instant. It never misses an addition that the caller knows of.
        let counts = self.0.iter().map(|line| &line[of as usize]);
        counts.map(|count| count.load(Acquire)).sum()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod striped_tests {
    use super::*;

    #[testkit::test]
    fn threads_on_all_lines_lose_no_count() {
        let counters = StripedCounters::new();
        std::thread::scope(|scope| {
            for _ in 0..4 * LINES {
                scope.spawn(|| (0..1000).for_each(|_| counters.add_one(Striped::BegunInPlace)));
            }
        });
        let sums = [
            Striped::Refused,
            Striped::BegunInPlace,
            Striped::CompletedInPlace,
        ];
        let sums = sums.map(|of| counters.sum(of));
        assert_eq!(sums, [0, 4 * LINES as u64 * 1000, 0]);
        let used = counters.0.iter().filter(|line| line[1].load(Acquire) > 0);
        assert!(used.count() > 1);
    }
}

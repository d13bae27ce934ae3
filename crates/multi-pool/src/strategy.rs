//! Strategies, which choose the pool that a task is offered to first.
//!
//! The choice is only a preference. The chosen pool may have filled up since its load was read; the task
//! then goes to another. So a strategy affects balance only, and reads the loads without a lock.

use std::fmt;
use std::sync::Arc;

use pool_core::internals::{LoadStats, WaiterCount};
use pool_core::{Capacity, QueueDepth};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};

/// Chooses the pool that a task is offered to first. Called once per task, by many threads at once.
///
/// ```
/// use multi_pool::{Load, Loads, Strategy};
/// use pool_core::{Capacity, QueueDepth};
///
/// /// Fills the pools one after the other, so that the last ones need no threads under light load.
/// struct InOrder;
///
/// impl Strategy for InOrder {
///     fn choose(&self, loads: &Loads<'_>) -> usize {
///         loads.iter().position(|load| load.has_worker()).unwrap_or(0)
///     }
/// }
///
/// let mut loads = [Load::new(Capacity::Limited(2), QueueDepth::Limited(0)); 3];
/// loads[0].in_flight = 2;
/// assert_eq!(InOrder.choose(&Loads::given(&loads)), 1);
/// ```
pub trait Strategy: Send + Sync + 'static {
    /// Returns the index of the pool to offer the next task to, modulo the number of pools. Not called if there is
    /// only one.
    ///
    /// If that pool has no room, the task is offered to each other pool. A panic reaches the submitting
    /// thread, and the pools are unchanged.
    fn choose(&self, loads: &Loads<'_>) -> usize;

    /// Called after the pools were rebooted. The default does nothing.
    fn reset(&self) {}
}

/// Load of one pool, for a strategy. May be stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Accepted tasks that have not ended.
    pub in_flight: usize,
    /// Threads and futures that wait for room. The same for all pools, because each waits for any of them.
    pub waiting: usize,
    /// Live workers, including idle ones.
    pub live: usize,
    /// Maximum number of live workers.
    pub capacity: Capacity,
    /// Maximum number of accepted tasks beyond the capacity.
    pub queue_depth: QueueDepth,
}

impl Load {
    /// Creates the load of a pool without tasks and workers.
    pub fn new(capacity: Capacity, queue_depth: QueueDepth) -> Self {
        Self {
            in_flight: 0,
            waiting: 0,
            live: 0,
            capacity,
            queue_depth,
        }
    }

    fn read(load_stats: &LoadStats, waiter_count: &WaiterCount) -> Self {
        Self {
            in_flight: load_stats.in_flight(),
            waiting: waiter_count.len(),
            live: load_stats.live(),
            capacity: load_stats.capacity(),
            queue_depth: load_stats.queue_depth(),
        }
    }

    /// Returns whether a worker is free or may be started.
    pub fn has_worker(&self) -> bool {
        self.capacity
            .limit()
            .is_none_or(|most| self.in_flight < most)
    }

    /// Returns whether one more task would be accepted, possibly into the queue.
    pub fn has_room(&self) -> bool {
        let limits = self.capacity.limit().zip(self.queue_depth.limit());
        limits.is_none_or(|(workers, queued)| self.in_flight < workers.saturating_add(queued))
    }
}

/// Loads of all pools. Each is read when it is accessed, without a lock, so a strategy pays only for the
/// pools that it looks at.
#[derive(Clone, Copy)]
pub struct Loads<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    Pools(&'a [Arc<LoadStats>], &'a WaiterCount),
    Given(&'a [Load]),
}

impl<'a> Loads<'a> {
    pub(crate) fn of_pools(loads: &'a [Arc<LoadStats>], waiter_count: &'a WaiterCount) -> Self {
        Self(Source::Pools(loads, waiter_count))
    }

    /// Wraps given loads, for tests of a strategy.
    pub fn given(loads: &'a [Load]) -> Self {
        Self(Source::Given(loads))
    }

    /// Returns the number of pools, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        match self.0 {
            Source::Pools(loads, _) => loads.len(),
            Source::Given(loads) => loads.len(),
        }
    }

    /// Reads the load of a pool. Returns `None` if the index is out of range.
    pub fn get(&self, index: usize) -> Option<Load> {
        match self.0 {
            Source::Pools(loads, waiter_count) => loads
                .get(index)
                .map(|load_stats| Load::read(load_stats, waiter_count)),
            Source::Given(loads) => loads.get(index).copied(),
        }
    }

    /// Returns whether a pool has a free worker or may start one, like [`Load::has_worker`]. Returns `false` if
    /// the index is out of range.
    ///
    /// Cheaper than [`get`](Loads::get), because it reads no counter that changes with every task.
    pub fn has_worker(&self, index: usize) -> bool {
        match self.0 {
            Source::Pools(loads, _) => loads
                .get(index)
                .is_some_and(|load_stats| load_stats.has_worker()),
            Source::Given(loads) => loads.get(index).is_some_and(Load::has_worker),
        }
    }

    /// Returns whether a pool has room, like [`Load::has_room`]. Returns `false` if the index is out of range.
    pub fn has_room(&self, index: usize) -> bool {
        match self.0 {
            Source::Pools(loads, _) => loads
                .get(index)
                .is_some_and(|load_stats| load_stats.has_room()),
            Source::Given(loads) => loads.get(index).is_some_and(Load::has_room),
        }
    }

    fn tasks(&self, index: usize) -> Option<usize> {
        match self.0 {
            Source::Pools(loads, waiter_count) => {
                let load_stats = loads.get(index)?;
                Some(load_stats.in_flight() + waiter_count.len())
            }
            Source::Given(loads) => loads.get(index).map(|load| load.in_flight + load.waiting),
        }
    }

    /// Returns an iterator that reads the loads one after the other, beginning with pool 0.
    pub fn iter(&self) -> impl Iterator<Item = Load> + use<'a> {
        let loads = *self;
        (0..loads.len()).filter_map(move |index| loads.get(index))
    }
}

impl fmt::Debug for Loads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Chooses the next pool in turn that has a free worker or may start one, or else the next with room in its
/// queue. The default strategy.
///
/// Reads one pool only, while workers are free.
#[derive(Debug, Default)]
#[repr(align(128))] // Every submit writes it, so no other data may share its cache line.
pub struct RoundRobin {
    next: AtomicUsize,
}

impl RoundRobin {
    /// Creates a strategy that begins with pool 0.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Strategy for RoundRobin {
    fn choose(&self, loads: &Loads<'_>) -> usize {
        let pools = loads.len().max(1);
        // Relaxed: each call gets its own number, and no other memory is read because of it.
        let number = self.next.fetch_add(1, Relaxed);
        let turn = if pools.is_power_of_two() {
            number & (pools - 1) // A division costs as much as the rest of the choice.
        } else {
            number % pools
        };
        if loads.has_worker(turn) {
            return turn;
        }
        let mut others = (turn + 1..pools).chain(0..turn);
        let worker = others.clone().find(|&index| loads.has_worker(index));
        worker
            .or_else(|| loads.has_room(turn).then_some(turn))
            .or_else(|| others.find(|&index| loads.has_room(index)))
            .unwrap_or(turn)
    }

    fn reset(&self) {
        self.next.store(0, Relaxed); // As above.
    }
}

/// Chooses the first pool with the fewest running, queued and waiting tasks.
///
/// For tasks of very different lengths. Reads every pool for each task.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastTasks;

impl Strategy for LeastTasks {
    fn choose(&self, loads: &Loads<'_>) -> usize {
        let pools = 0..loads.len();
        pools.min_by_key(|&index| loads.tasks(index)).unwrap_or(0)
    }
}

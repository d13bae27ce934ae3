//! Which pool a task is offered to first.
//!
//! A choice is a wish: the pool may have filled up since its figures were read, and then the task
//! goes to another. So a strategy decides about balance and about nothing else, and its figures
//! may be read without any lock.

use std::fmt;
use std::sync::Arc;

use pool_core::internals::{LoadStats, WaiterCount};
use pool_core::{Capacity, QueueDepth};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};

/// Chooses among pools. It is called once per task, by many threads at once.
///
/// ```
/// use multi_pool::{Load, Loads, Strategy};
/// use pool_core::{Capacity, QueueDepth};
///
/// /// Fills the pools one after the other, so that the last ones may stay without threads.
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
    /// The index of the pool that the next task is offered to first.
    ///
    /// An index that is too large is taken modulo the number of pools. If that pool has no room,
    /// the task is offered to each other. A panic reaches the submitting thread, and changes nothing.
    fn choose(&self, loads: &Loads<'_>) -> usize;

    /// The pools have been rebooted: begin as at first. By default nothing is done.
    fn reset(&self) {}
}

/// The figures of one pool, as a strategy sees them. They may be stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Accepted tasks that have not ended.
    pub in_flight: usize,
    /// Threads and futures that wait for room. Each waits for any of the pools, so each pool has the
    /// same number.
    pub waiting: usize,
    /// Live workers, idle ones included.
    pub live: usize,
    /// The most live workers there may be.
    pub capacity: Capacity,
    /// The accepted tasks that may wait beyond the capacity.
    pub queue_depth: QueueDepth,
}

impl Load {
    /// A pool without tasks or workers.
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

    /// Whether a worker is free, or one may be started.
    pub fn has_worker(&self) -> bool {
        self.capacity
            .limit()
            .is_none_or(|most| self.in_flight < most)
    }

    /// Whether one more task would be accepted, if only into the queue.
    pub fn has_room(&self) -> bool {
        let limits = self.capacity.limit().zip(self.queue_depth.limit());
        limits.is_none_or(|(workers, queued)| self.in_flight < workers.saturating_add(queued))
    }
}

/// The loads of all pools. Each is read when it is asked for, without a lock: a strategy pays for
/// the pools it looks at, and no others.
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

    /// These loads, to try a strategy with.
    pub fn given(loads: &'a [Load]) -> Self {
        Self(Source::Given(loads))
    }

    /// How many pools there are. A multi-pool has at least one.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        match self.0 {
            Source::Pools(loads, _) => loads.len(),
            Source::Given(loads) => loads.len(),
        }
    }

    /// Reads one pool's load. `None` if there is no such pool.
    pub fn get(&self, index: usize) -> Option<Load> {
        match self.0 {
            Source::Pools(loads, waiter_count) => loads
                .get(index)
                .map(|load_stats| Load::read(load_stats, waiter_count)),
            Source::Given(loads) => loads.get(index).copied(),
        }
    }

    /// Whether a pool has a worker free, or may start one: as [`Load::has_worker`] says, but cheaper
    /// than [`get`](Loads::get), for it reads nothing that changes with every task. `false` if there
    /// is no such pool.
    pub fn has_worker(&self, index: usize) -> bool {
        match self.0 {
            Source::Pools(loads, _) => loads
                .get(index)
                .is_some_and(|load_stats| load_stats.has_worker()),
            Source::Given(loads) => loads.get(index).is_some_and(Load::has_worker),
        }
    }

    /// Whether a pool has room, if only in its queue: as [`Load::has_room`] says. `false` if there is
    /// no such pool.
    pub fn has_room(&self, index: usize) -> bool {
        match self.0 {
            Source::Pools(loads, _) => loads
                .get(index)
                .is_some_and(|load_stats| load_stats.has_room()),
            Source::Given(loads) => loads.get(index).is_some_and(Load::has_room),
        }
    }

    /// A pool's tasks in flight and waiting, without its other figures.
    fn tasks(&self, index: usize) -> Option<usize> {
        match self.0 {
            Source::Pools(loads, waiter_count) => {
                let load_stats = loads.get(index)?;
                Some(load_stats.in_flight() + waiter_count.len())
            }
            Source::Given(loads) => loads.get(index).map(|load| load.in_flight + load.waiting),
        }
    }

    /// Reads the loads one after the other, from pool 0 on.
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

/// The next pool in turn, from pool 0 on. If it has no worker free and may start none, the next
/// after it that has; if none has, the next with room in its queue.
///
/// The usual choice: while workers are free it looks at one pool only.
#[derive(Debug, Default)]
#[repr(align(128))] // Every submit writes it: no other data is to lie on its cache line.
pub struct RoundRobin {
    next: AtomicUsize,
}

impl RoundRobin {
    /// Begins with pool 0.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Strategy for RoundRobin {
    fn choose(&self, loads: &Loads<'_>) -> usize {
        let pools = loads.len().max(1);
        // Relaxed: each call gets a number of its own, and nothing else is read because of it.
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

/// The pool with the fewest tasks, running, queued and waiting; the first of several.
///
/// For tasks of very different length. It looks at every pool for each task.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastTasks;

impl Strategy for LeastTasks {
    fn choose(&self, loads: &Loads<'_>) -> usize {
        let pools = 0..loads.len();
        pools.min_by_key(|&index| loads.tasks(index)).unwrap_or(0)
    }
}

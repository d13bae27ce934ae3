//! The capacity, its changes, and their visible effects at any moment.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use pool_core::{Stats, WorkerPool};
use testkit::Rng;

use crate::subject::Kind;

/// Tasks that calls may have taken out of the queue: of the calls that have begun, and of those that
/// have ended.
static TAKEN_OUT: (AtomicUsize, AtomicUsize) = (AtomicUsize::new(0), AtomicUsize::new(0));
/// More tasks than a round has, for a call that may take out all.
pub(crate) const ALL: usize = 1 << 20;

/// Makes a call that may take `most` tasks out of the queue: a cancel, a join in a task, a release.
pub(crate) fn taking_out<T>(most: usize, call: impl FnOnce() -> T) -> T {
    TAKEN_OUT.0.fetch_add(most, SeqCst);
    let answer = call();
    TAKEN_OUT.1.fetch_add(most, SeqCst);
    answer
}

/// Unlimited, as a number to compare with.
const UNLIMITED: usize = usize::MAX;

/// Locked while the capacity is changed and while a sample is taken, so that each sample knows the
/// capacity in force.
pub(crate) struct Limits(Mutex<Force>);

struct Force {
    capacity: usize,
    depth: usize,
    /// The largest capacity since the number of workers was last within the limit.
    workers: usize,
    /// When the capacity shrank, one more worker may have been started by an earlier decision: the
    /// number of completed starts at that time.
    on_its_way: Option<u64>,
    /// As `workers`, for the tasks in flight.
    tasks: usize,
    /// The largest capacity ever.
    highest: usize,
}

impl Limits {
    pub(crate) fn new(capacity: Option<usize>, depth: Option<usize>) -> Self {
        let (capacity, depth) = (capacity.unwrap_or(UNLIMITED), depth.unwrap_or(UNLIMITED));
        Self(Mutex::new(Force {
            capacity,
            depth,
            workers: capacity,
            on_its_way: None,
            tasks: capacity.saturating_add(depth),
            highest: capacity,
        }))
    }

    pub(crate) fn tune<K: Kind>(&self, pool: &WorkerPool<K>, rng: &mut Rng) {
        let most = if rng.chance(4) { 64 } else { 6 };
        let capacity = 1 + rng.below(most);
        let mut force = self.lock();
        pool.tune(capacity).expect("a capacity above zero is valid");
        if capacity < force.capacity {
            force.on_its_way = Some(starts(&pool.stats()));
        }
        force.capacity = capacity;
        force.workers = force.workers.max(capacity);
        force.tasks = force.tasks.max(capacity.saturating_add(force.depth));
        force.highest = force.highest.max(capacity);
    }

    /// Takes one sample. Returns a description of the violated limit.
    pub(crate) fn sample<K: Kind>(&self, pool: &WorkerPool<K>) -> Result<(), String> {
        let mut force = self.lock();
        let ended_before = TAKEN_OUT.1.load(SeqCst);
        let stats = pool.stats();
        // Tasks that were taken out are in flight until they are dropped, and hold no room. This is their
        // maximum.
        let taken_out = TAKEN_OUT.0.load(SeqCst) - ended_before;
        // The maximum number of tasks that hold room now. A worker may be busy without one: with a hook or
        // a waker, or because it is woken to leave.
        let tasks = stats.in_flight.min(stats.busy + stats.queued);
        let ended = stats.completed + stats.panicked + stats.cancelled + stats.released;
        let late = usize::from(force.on_its_way.is_some());
        let right = stats.capacity.limit().unwrap_or(UNLIMITED) == force.capacity
            && stats.live <= force.workers.saturating_add(late)
            && stats.peak_live <= force.highest
            && tasks <= force.tasks.saturating_add(taken_out)
            && stats.busy + stats.idle == stats.live
            && ended <= stats.submitted
            && stats.threads_started - stats.threads_retired == stats.live as u64
            && (stats.waiting == 0 || tasks >= force.capacity.saturating_add(force.depth));
        if stats.live <= force.capacity {
            force.workers = force.capacity;
            force.on_its_way.take_if(|before| *before < starts(&stats));
        }
        if tasks <= force.capacity.saturating_add(force.depth) {
            force.tasks = force.capacity.saturating_add(force.depth);
        }
        if right {
            Ok(())
        } else {
            Err(format!(
                "at most {} workers and {} tasks, capacity {}: {stats:?}",
                force.workers, force.tasks, force.capacity
            ))
        }
    }

    pub(crate) fn check(&self, stats: &Stats) {
        assert!(stats.peak_live <= self.lock().highest);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Force> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Completed thread starts.
fn starts(stats: &Stats) -> u64 {
    stats.threads_started + stats.thread_failures
}

//! Interface for a scheduler: tasks that their owner can take back at any time, an entry into the
//! wait queue that neither blocks nor is refused for lack of room, and a callback at the release.
//!
//! # Invariants
//! 1. An entered scheduled task is run or released once, or it still has its place in the wait
//!    queue.
//! 2. Its waiter entry stands in the pool's only wait queue, first come, first served. The figures
//!    count it as waiting, but `max_waiting` does not apply to it.
//! 3. A release listener is called once, with no lock held, after the tasks of the wait queue were
//!    given back.

use std::io;
use std::sync::{Arc, Weak};

use crate::engine::core::Core;
use crate::error::Closed;
use crate::sched::effects::ReleaseListener;
use crate::sched::waiters::WaiterEntry;
use crate::sister::pool_handle::PoolHandle;
use crate::task::closures::Closures;
use crate::task::erased::{Task, Work};
use crate::task::handle::PoolRef;
use crate::task::run::{Resolve, TaskContext, TaskResult};

/// A task shared by the pool and the scheduler that entered it. The scheduler may have taken its
/// body back.
pub trait ScheduledTask: Resolve + 'static {
    /// Called by the worker that takes the task. Runs it, unless its body was taken back. Must not
    /// unwind.
    fn run(self: Arc<Self>, context: &TaskContext) -> TaskResult;
    /// Called when `release_now` removes the task from the queue. Must not unwind.
    fn release(self: Arc<Self>) -> TaskResult;
}

struct Entry(Arc<dyn ScheduledTask>);

impl Work for Entry {
    fn run(self, context: &TaskContext) -> TaskResult {
        self.0.run(context)
    }

    fn release(self) -> TaskResult {
        self.0.release()
    }
}

/// Outcome of entering a scheduled task.
#[expect(
    missing_debug_implementations,
    reason = "never leaves `scheduled-pool`"
)]
pub enum Entered {
    /// There was room: the task will run.
    Accepted,
    /// The task waits for room.
    Waiting(Queued),
    /// The pool is released.
    Released,
    /// The pool has room but no worker, and the operating system refused to start the first.
    NoThread(io::Error),
}

/// A scheduled task's place in the wait queue. Dropping it removes the task, if it still stands
/// there.
#[expect(
    missing_debug_implementations,
    reason = "never leaves `scheduled-pool`"
)]
pub struct Queued {
    core: Arc<Core<Closures>>,
    entry: Arc<WaiterEntry<Task>>,
    number: u64,
}

impl PoolHandle {
    /// Enters a scheduled task without waiting for room. May start a thread, or wait for the start
    /// of the first.
    pub fn enter(&self, task: Arc<dyn ScheduledTask>) -> Entered {
        let job = Task::new(Entry(task));
        // Holds a rejected job until the lock is unlocked, because its drop is user code.
        let admitted = self.0.admit(job, |state, why, job| match why {
            Closed::Full => {
                // In the section that found the pool full: otherwise room freed in between would not
                // reach the task.
                let entry = WaiterEntry::of_scheduled_task(job);
                let number = state.enqueue_waiter(Arc::clone(&entry));
                let core = Arc::clone(&self.0);
                (
                    Entered::Waiting(Queued {
                        core,
                        entry,
                        number,
                    }),
                    None,
                )
            }
            Closed::Released => {
                state.counts.refused += 1;
                (Entered::Released, Some(job))
            }
            // Not counted as refused, because the scheduler retries.
            Closed::NoThread(error) => (Entered::NoThread(error), Some(job)),
        });
        admitted.map_or_else(|(entered, _)| entered, |()| Entered::Accepted)
    }

    /// Registers `listener` for the release of that [`generation`](Self::generation). Returns
    /// `false` if it has been released already.
    pub fn on_release(&self, listener: Weak<dyn ReleaseListener>, generation: u64) -> bool {
        self.0.state.section(|state| {
            let is_open = state.open && state.generation == generation;
            if is_open {
                let listeners = &mut state.release_listeners;
                if listeners.len() == listeners.capacity() {
                    // Removes listeners of schedulers that are gone. This only frees memory, so it
                    // may run under the lock. Afterwards half of the places are free, so the
                    // amortised cost is O(1).
                    listeners.retain(|other| other.strong_count() > 0);
                    listeners.shrink_to(2 * listeners.len());
                    listeners.reserve(listeners.len());
                }
                listeners.push(listener);
            }
            is_open
        })
    }
}

impl Queued {
    /// Whether a release has given the scheduled task back.
    pub fn is_returned(&self) -> bool {
        self.entry.is_returned()
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if self.core.process().is_current() {
            drop(self.core.leave_wait_queue(&self.entry, self.number)); // The lock is free again.
            // A returned task refers to its owner, which may own this place: breaks the cycle.
            drop(self.entry.outcome());
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;
    use crate::Pool;

    struct Deaf;
    impl ReleaseListener for Deaf {
        fn released(&self) {}
    }

    #[testkit::test]
    fn the_watches_of_schedulers_that_are_gone_do_not_pile_up() {
        let built = Pool::builder().capacity(1).build();
        let pool = built.expect("a capacity is all that is needed");
        for _ in 0..100 {
            let listener = Arc::new(Deaf) as Arc<dyn ReleaseListener>;
            assert!(PoolHandle::of(&pool).on_release(Arc::downgrade(&listener), 0));
        }
        assert!(pool.core().state.lock().release_listeners.capacity() <= 4);
    }
}

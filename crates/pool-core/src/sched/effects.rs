//! Work that a section defers until the lock is free.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use sync_shim::waiter::{Waiter, WakeList};

use crate::foreign::{discard, drop_quietly, guarded};
use crate::sched::event::Events;
use crate::sched::waiters::WaiterEntry;
use crate::sched::workers::WorkerCell;

/// Collected under the pool's lock and carried out after it, in this order: thread wake-ups
/// ([`wake_threads`](Effects::wake_threads)), a thread start, user code
/// ([`run_user_code`](Effects::run_user_code)). So slow user code delays no other thread.
///
/// Effects that are not carried out leak.
// Most sections have none, which must cost nothing: an empty one is not moved (a move reads bytes that were just
// written in other sizes, which stalls the processor for longer than the section took) and has no destructor.
#[must_use]
pub(crate) struct Effects<J> {
    /// Whether the caller has to start a worker. The start has been reserved for it.
    // Left to the caller, because starting a thread takes far longer than a section may.
    pub(crate) start: bool,
    /// Whether a worker is spinning for work.
    pub(crate) searchers: bool,
    wakes: ManuallyDrop<WakeList>,
    others: ManuallyDrop<SmallList<UserCode<J>>>,
}

/// A callback for the release of a pool.
pub trait ReleaseListener: Send + Sync + 'static {
    /// Called on the thread that released the pool, with no lock held.
    fn released(&self);
}

/// Effects that run user code, other than wakers.
enum UserCode<J> {
    /// Drops an entry that has left the wait queue, perhaps with its task or its waker.
    Drop(Arc<WaiterEntry<J>>),
    /// Tells a listener that the pool was released, or cancels the token of running tasks.
    Call(Box<dyn FnOnce() + Send>),
}

impl<J> Effects<J> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            start: false,
            searchers: false,
            wakes: ManuallyDrop::new(WakeList::new()),
            others: ManuallyDrop::new(SmallList::EMPTY),
        }
    }

    pub(crate) fn wake_worker(&mut self, cell: &WorkerCell) {
        // Cloned, because the worker may end before it is unparked, and its parker must outlive that.
        self.wakes.push_thread(cell.parker.clone());
    }

    /// Wakes a waiting submitter. A future that has not been polled yet has no waiter.
    pub(crate) fn wake(&mut self, waiter: Option<Waiter>) {
        if let Some(waiter) = waiter {
            self.wakes.push(waiter);
        }
    }

    pub(crate) fn wakes(&mut self) -> &mut WakeList {
        &mut self.wakes
    }

    pub(crate) fn set_all(&mut self, events: &mut Events) {
        // Only collected, because waking a thread is a system call and must not be made under the lock.
        events.set_all(&mut self.wakes);
    }

    pub(crate) fn drop_later(&mut self, entry: Arc<WaiterEntry<J>>) {
        // The entry may own a task or a waker, whose drop must not run under the lock.
        self.others.push(UserCode::Drop(entry));
    }

    /// Calls a closure that may run user code.
    pub(crate) fn call_later(&mut self, call: impl FnOnce() + Send + 'static) {
        self.others.push(UserCode::Call(Box::new(call)));
    }

    /// Whether nothing is deferred, except perhaps the hint for searchers.
    // Kept short, because sections of a busy pool end with it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.start && self.wakes.is_empty() && self.others.is_empty()
    }

    /// Whether user code is deferred.
    #[inline]
    pub(crate) fn has_user_code(&self) -> bool {
        self.wakes.has_tasks() || !self.others.is_empty()
    }

    /// Wakes threads without running user code.
    #[inline]
    pub(crate) fn wake_threads(&mut self) {
        // Before user code, which may wait for one of these threads.
        self.wakes.wake_threads();
    }

    /// Runs the deferred user code. No lock may be held, and this must be the last effect.
    pub(crate) fn run_user_code(&mut self) {
        // USER CODE: wakers of futures. They must come last: threads are awake by now, and the worker holds no task.
        // Panics end here.
        self.wakes.wake_all();
        let (first, rest) = self.others.take();
        first.into_iter().for_each(UserCode::run);
        for other in rest {
            other.run();
        }
    }
}

impl<J> UserCode<J> {
    #[inline(never)]
    fn run(self) {
        match self {
            // USER CODE: the drop of a waiter, with its waker or task.
            Self::Drop(entry) => _ = drop_quietly(entry),
            // USER CODE: a listener for the release, as of a scheduler, and wakers of a token's waiters.
            Self::Call(call) => {
                if let Err(payload) = guarded(call) {
                    discard(payload);
                }
            }
        }
    }
}

/// A list that allocates nothing for up to one element, which is the common case.
struct SmallList<T> {
    first: Option<T>,
    #[expect(
        clippy::box_collection,
        reason = "one word: each section makes such lists anew"
    )]
    rest: Option<Box<Vec<T>>>,
}

impl<T> SmallList<T> {
    const EMPTY: Self = Self {
        first: None,
        rest: None,
    };

    fn push(&mut self, entry: T) {
        // The first element needs no box: sections with user code mostly defer one piece of it.
        if self.first.is_none() {
            self.first = Some(entry);
        } else {
            self.rest.get_or_insert_default().push(entry);
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn take(&mut self) -> (Option<T>, Vec<T>) {
        let rest = self.rest.take().map(|rest| *rest);
        (self.first.take(), rest.unwrap_or_default())
    }
}

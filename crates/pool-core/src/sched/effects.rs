//! Work that a section defers until the lock is free.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};

use sync_shim::waiter::{Waiter, WakeList};

use crate::cancel::CancelToken;
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
    /// Tells a listener that the pool was released.
    Released(Weak<dyn ReleaseListener>),
    /// Cancels the token of running tasks.
    Cancel(CancelToken),
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
        events.set_all(&mut self.wakes);
    }

    pub(crate) fn drop_later(&mut self, entry: Arc<WaiterEntry<J>>) {
        // The entry may own a task or a waker, whose drop must not run under the lock.
        self.others.push(UserCode::Drop(entry));
    }

    pub(crate) fn push_released(&mut self, listener: Weak<dyn ReleaseListener>) {
        // Weak until it is called, so that a pool does not keep its scheduler alive.
        self.others.push(UserCode::Released(listener));
    }

    pub(crate) fn push_cancel(&mut self, token: CancelToken) {
        // Cancelling calls wakers, which must not run under the lock.
        self.others.push(UserCode::Cancel(token));
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
        self.wakes.wake_threads();
    }

    /// Runs the deferred user code. No lock may be held, and this must be the last effect.
    pub(crate) fn run_user_code(&mut self) {
        // USER CODE: wakers of futures. They must come last: threads are awake by now, and the worker holds no task.
        // Panics end here.
        self.wakes.wake_all();
        // Taken out, because effects have no destructor and would leak what they keep.
        for other in self.others.take() {
            match other {
                // USER CODE: the drop of a waiter, with its waker or task.
                UserCode::Drop(entry) => _ = drop_quietly(entry),
                UserCode::Cancel(token) => _ = token.cancel(),
                UserCode::Released(listener) => {
                    if let Some(listener) = listener.upgrade()
                        // USER CODE: a listener for the release, as of a scheduler.
                        && let Err(payload) = guarded(|| listener.released())
                    {
                        discard(payload);
                    }
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

    fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        // Emptied before the first element runs, so that user code that panics leaves no element behind to run twice.
        let rest = self.rest.take().map(|rest| *rest);
        let first = self.first.take();
        first.into_iter().chain(rest.into_iter().flatten())
    }
}

//! What a section defers until the lock is free.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};

use sync_shim::waiter::{Waiter, WakeList};

use crate::foreign::{discard, drop_quietly, guarded};
use crate::sched::event::Events;
use crate::sched::idle::WorkerCell;
use crate::sched::waiters::WaiterEntry;
use crate::task::cancel::CancelToken;

/// Gathered under the pool's lock, run after it: first what only wakes threads
/// ([`wake_threads`](Effects::wake_threads)), then the start, then user code
/// ([`run_user_code`](Effects::run_user_code)). So user code that takes its time holds up nothing
/// but itself.
///
/// Mostly there are none, and then they must cost nothing: they are not moved (a move reads what
/// was written a moment ago in other sizes, which stalls the processor for longer than the section
/// took) and have nothing to drop. Those that are not run leak.
#[must_use]
pub(crate) struct Effects<J> {
    /// A worker is to be started, and the start is reserved for the caller.
    pub(crate) start: bool,
    /// A worker spins for work.
    pub(crate) searchers: bool,
    wakes: ManuallyDrop<WakeList>,
    others: ManuallyDrop<Few<UserCode<J>>>,
}

/// Called when the pool is released.
pub trait ReleaseListener: Send + Sync + 'static {
    /// The calling thread released it, and holds no lock.
    fn released(&self);
}

/// What runs user code, beside wakers.
enum UserCode<J> {
    /// A waiter entry has left the wait queue. Its task or its waker may be dropped with it.
    Drop(Arc<WaiterEntry<J>>),
    /// The pool was released.
    Released(Weak<dyn ReleaseListener>),
    /// What runs is asked to stop.
    Cancel(CancelToken),
}

impl<J> Effects<J> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            start: false,
            searchers: false,
            wakes: ManuallyDrop::new(WakeList::new()),
            others: ManuallyDrop::new(Few::EMPTY),
        }
    }

    pub(crate) fn wake_worker(&mut self, cell: &WorkerCell) {
        self.wakes.push_thread(cell.parker.clone());
    }

    /// A waiter got what it waits for. There is none where it has not been polled yet.
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
        self.others.push(UserCode::Drop(entry));
    }

    pub(crate) fn push_released(&mut self, listener: Weak<dyn ReleaseListener>) {
        self.others.push(UserCode::Released(listener));
    }

    pub(crate) fn push_cancel(&mut self, token: CancelToken) {
        self.others.push(UserCode::Cancel(token));
    }

    /// Nothing is deferred but perhaps a hint. A busy pool's sections end here, so it is kept
    /// short.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.start && self.wakes.is_empty() && self.others.is_empty()
    }

    /// Whether user code is to be run.
    #[inline]
    pub(crate) fn has_user_code(&self) -> bool {
        self.wakes.has_tasks() || !self.others.is_empty()
    }

    /// Wakes threads. Runs no user code.
    #[inline]
    pub(crate) fn wake_threads(&mut self) {
        self.wakes.wake_threads();
    }

    /// Runs the user code, after everything else. No lock may be held.
    pub(crate) fn run_user_code(&mut self) {
        // USER CODE: wakers of futures. Threads are awake by now; the worker has no task in hand. Panics end here.
        self.wakes.wake_all();
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

/// A list that mostly holds one entry or none, and then allocates nothing.
struct Few<T> {
    first: Option<T>,
    #[expect(
        clippy::box_collection,
        reason = "one word: each section makes such lists anew"
    )]
    rest: Option<Box<Vec<T>>>,
}

impl<T> Few<T> {
    const EMPTY: Self = Self {
        first: None,
        rest: None,
    };

    fn push(&mut self, entry: T) {
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
        let rest = self.rest.take().map(|rest| *rest);
        let first = self.first.take();
        first.into_iter().chain(rest.into_iter().flatten())
    }
}

//! What is owed to others once the lock is free.

use std::mem::{self, ManuallyDrop};
use std::sync::{Arc, Weak};
use std::time::Instant;

use sync_shim::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use sync_shim::{Clock, Parker, ThreadParker};

use crate::errand::Watch;
use crate::foreign::{discard, drop_quietly, guarded};
use crate::idle::WorkerCell;
use crate::line::Seat;

/// Gathered under the pool's lock, performed after it.
///
/// Mostly nothing is owed, and then it must cost nothing: it is never moved (a move reads what was
/// written a moment ago in other sizes, which stalls the processor for longer than the section
/// took) and has nothing to drop. One that is not performed leaks what it holds.
#[must_use]
pub(crate) struct After<J> {
    /// A worker is to be started, and the start is reserved for the caller.
    pub(crate) start: bool,
    /// Somebody spins for work.
    pub(crate) searchers: bool,
    // Mostly there is one call or none, and then nothing is allocated.
    first: ManuallyDrop<Option<Owed<J>>>,
    rest: ManuallyDrop<Vec<Owed<J>>>,
}

enum Owed<J> {
    /// A worker was popped from the idle.
    Unpark(Arc<WorkerCell>),
    /// A seat was settled.
    Ring(Arc<Seat<J>>),
    /// A seat was found empty. Its waker may be dropped with it, which is foreign code.
    Drop(Arc<Seat<J>>),
    /// Something that was waited for has come.
    Tell(Arc<Notice>),
    /// The pool was released, and somebody wants to know.
    Watch(Weak<dyn Watch>),
}

impl<J> After<J> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            start: false,
            searchers: false,
            first: ManuallyDrop::new(None),
            rest: ManuallyDrop::new(Vec::new()),
        }
    }

    fn owe(&mut self, owed: Owed<J>) {
        if self.first.is_none() {
            *self.first = Some(owed);
        } else {
            self.rest.push(owed);
        }
    }

    pub(crate) fn unpark(&mut self, cell: Arc<WorkerCell>) {
        self.owe(Owed::Unpark(cell));
    }

    pub(crate) fn ring(&mut self, seat: Arc<Seat<J>>) {
        self.owe(Owed::Ring(seat));
    }

    pub(crate) fn drop_later(&mut self, seat: Arc<Seat<J>>) {
        self.owe(Owed::Drop(seat));
    }

    pub(crate) fn tell(&mut self, notices: &mut Vec<Arc<Notice>>) {
        for notice in notices.drain(..) {
            self.owe(Owed::Tell(notice));
        }
    }

    pub(crate) fn tell_watch(&mut self, watch: Weak<dyn Watch>) {
        self.owe(Owed::Watch(watch));
    }

    /// Nothing is owed. A busy pool's sections end here, so it is kept short.
    #[inline]
    pub(crate) fn is_paid(&self) -> bool {
        !self.start && self.first.is_none()
    }

    /// Pays everything but the start. No lock may be held: bells ring foreign wakers.
    pub(crate) fn pay(&mut self) {
        let rest = mem::take(&mut *self.rest);
        for owed in self.first.take().into_iter().chain(rest) {
            match owed {
                Owed::Unpark(cell) => cell.parker.unpark(),
                Owed::Ring(seat) => seat.ring(),
                Owed::Drop(seat) => _ = drop_quietly(seat),
                Owed::Tell(notice) => notice.give(),
                Owed::Watch(watch) => {
                    if let Some(watch) = watch.upgrade()
                        && let Err(payload) = guarded(|| watch.released())
                    {
                        discard(payload);
                    }
                }
            }
        }
    }
}

/// Something that one thread waits for and that comes once: the half of those that give it.
pub(crate) struct Notice {
    given: AtomicBool,
    parker: Parker,
}

/// The half of the thread that waits. While it exists no other wait of the thread takes its token.
pub(crate) struct NoticeWait {
    notice: Arc<Notice>,
    parker: ThreadParker,
}

impl NoticeWait {
    /// The calling thread is going to wait.
    pub(crate) fn new() -> Self {
        let parker = Parker::of_thread();
        Self {
            notice: Arc::new(Notice {
                given: AtomicBool::new(false),
                parker: parker.clone(),
            }),
            parker,
        }
    }

    /// The half for those that give it.
    pub(crate) fn notice(&self) -> Arc<Notice> {
        Arc::clone(&self.notice)
    }

    /// Takes the notice back, unless somebody has taken it out of there to give it.
    pub(crate) fn leave(&self, notices: &mut Vec<Arc<Notice>>) {
        notices.retain(|other| !Arc::ptr_eq(other, &self.notice));
    }

    pub(crate) fn is_given(&self) -> bool {
        self.notice.given.load(Acquire) // Pairs with the store in `give`.
    }

    /// Blocks until it is given.
    pub(crate) fn wait(&self) {
        while !self.is_given() {
            self.parker.park();
        }
    }

    /// Blocks until it is given (`true`) or the clock reaches the deadline.
    pub(crate) fn wait_until(&self, clock: &dyn Clock, deadline: Option<Instant>) -> bool {
        let Some(when) = deadline else {
            self.wait();
            return true;
        };
        while !self.is_given() {
            if !clock.park_until(&self.parker, when) {
                return self.is_given();
            }
        }
        true
    }
}

impl Notice {
    fn give(&self) {
        self.given.store(true, Release); // Pairs with the load in `is_given`.
        self.parker.unpark();
    }
}

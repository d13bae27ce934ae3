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

/// Gathered under the pool's lock, performed after it: first what only tells threads of ours
/// ([`pay`](After::pay)), then the start, then what runs user code
/// ([`call_out`](After::call_out)). So user code that takes its time holds up nothing but itself.
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
    tokens: ManuallyDrop<Few<Token<J>>>,
    calls: ManuallyDrop<Few<Call<J>>>,
}

/// What is owed to a thread that waits.
enum Token<J> {
    /// A worker was popped from the idle.
    Unpark(Arc<WorkerCell>),
    /// A seat was settled on which a thread sleeps.
    Ring(Arc<Seat<J>>),
    /// Something that was waited for has come.
    Tell(Arc<Notice>),
}

/// What runs user code.
enum Call<J> {
    /// A seat was settled, and has a waker.
    Wake(Arc<Seat<J>>),
    /// A seat was found empty. Its waker may be dropped with it.
    Drop(Arc<Seat<J>>),
    /// The pool was released, and somebody wants to know.
    Watch(Weak<dyn Watch>),
}

/// A list that mostly holds one entry or none, and then allocates nothing.
struct Few<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Few<T> {
    const EMPTY: Self = Self {
        first: None,
        rest: Vec::new(),
    };

    fn push(&mut self, entry: T) {
        if self.first.is_none() {
            self.first = Some(entry);
        } else {
            self.rest.push(entry);
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        let rest = mem::take(&mut self.rest);
        self.first.take().into_iter().chain(rest)
    }
}

impl<J> After<J> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            start: false,
            searchers: false,
            tokens: ManuallyDrop::new(Few::EMPTY),
            calls: ManuallyDrop::new(Few::EMPTY),
        }
    }

    pub(crate) fn unpark(&mut self, cell: Arc<WorkerCell>) {
        self.tokens.push(Token::Unpark(cell));
    }

    pub(crate) fn ring(&mut self, seat: Arc<Seat<J>>) {
        if seat.has_waker() {
            self.calls.push(Call::Wake(seat));
        } else {
            self.tokens.push(Token::Ring(seat));
        }
    }

    pub(crate) fn drop_later(&mut self, seat: Arc<Seat<J>>) {
        self.calls.push(Call::Drop(seat));
    }

    pub(crate) fn tell(&mut self, notices: &mut Vec<Arc<Notice>>) {
        self.tell_some(notices, usize::MAX);
    }

    /// Tells the first ones.
    pub(crate) fn tell_some(&mut self, notices: &mut Vec<Arc<Notice>>, most: usize) {
        for notice in notices.drain(..most.min(notices.len())) {
            self.tokens.push(Token::Tell(notice));
        }
    }

    pub(crate) fn tell_watch(&mut self, watch: Weak<dyn Watch>) {
        self.calls.push(Call::Watch(watch));
    }

    /// Nothing is owed. A busy pool's sections end here, so it is kept short.
    #[inline]
    pub(crate) fn is_paid(&self) -> bool {
        !self.start && self.tokens.is_empty() && self.calls.is_empty()
    }

    /// Whether user code is to be run.
    #[inline]
    pub(crate) fn calls_out(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Tells the threads that wait. Runs no user code.
    pub(crate) fn pay(&mut self) {
        for token in self.tokens.take() {
            match token {
                Token::Unpark(cell) => cell.parker.unpark(),
                Token::Ring(seat) => seat.ring(),
                Token::Tell(notice) => notice.give(),
            }
        }
    }

    /// Runs the user code that is owed, after everything else is paid. No lock may be held.
    pub(crate) fn call_out(&mut self) {
        for call in self.calls.take() {
            match call {
                Call::Wake(seat) => seat.ring(),
                Call::Drop(seat) => _ = drop_quietly(seat),
                Call::Watch(watch) => {
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

//! The line: who waits to push into a full queue, first come, first served.
//!
//! A pusher leaves its value here. Whoever frees a place enters the first one's value and calls
//! its owner, so an owner that sleeps, or a future that is never polled again, holds nobody up.
//! Held under the queue's lock.

use std::collections::BTreeMap;

use crate::EntryId;
use crate::calls::{Bell, Calls};
use crate::takers::Ticket;

pub(crate) struct Line<T> {
    waiting: BTreeMap<Ticket, Pusher<T>>,
    /// Not collected by their owners yet. A value in here was refused: the queue was closed.
    ended: BTreeMap<Ticket, Result<EntryId, T>>,
    next_ticket: Ticket,
}

pub(crate) struct Pusher<T> {
    pub(crate) value: T,
    pub(crate) due: u64,
    pub(crate) bell: Bell,
}

/// How it stands with a pusher.
pub(crate) enum Wait<T> {
    /// Its value lies in the queue, under this id.
    Entered(EntryId),
    /// The queue was closed first.
    Refused(T),
    /// It waits.
    Waiting,
}

impl<T> Line<T> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            ended: BTreeMap::new(),
            next_ticket: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Joins the end.
    pub(crate) fn join(&mut self, pusher: Pusher<T>) -> Ticket {
        self.next_ticket += 1;
        self.waiting.insert(self.next_ticket, pusher);
        self.next_ticket
    }

    /// The head leaves.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Ticket, Pusher<T>)> {
        self.waiting.pop_first()
    }

    /// The popped pusher's value has been entered.
    pub(crate) fn serve(&mut self, ticket: Ticket, id: EntryId) {
        self.ended.insert(ticket, Ok(id));
    }

    /// Everybody's value is refused.
    pub(crate) fn refuse_all(&mut self, calls: &mut Calls) {
        while let Some((ticket, pusher)) = self.waiting.pop_first() {
            self.ended.insert(ticket, Err(pusher.value));
            calls.add(pusher.bell);
        }
    }

    /// How it stands. The answer is given once if the wait is over.
    pub(crate) fn look(&mut self, ticket: Ticket) -> Wait<T> {
        match self.ended.remove(&ticket) {
            Some(Ok(id)) => Wait::Entered(id),
            Some(Err(value)) => Wait::Refused(value),
            None => Wait::Waiting,
        }
    }

    /// The waiting pusher is told by this from now on. The old bell is to be dropped when the lock
    /// is free.
    pub(crate) fn hang(&mut self, ticket: Ticket, bell: Bell) -> Bell {
        match self.waiting.get_mut(&ticket) {
            Some(pusher) => std::mem::replace(&mut pusher.bell, bell),
            None => bell,
        }
    }

    /// The waiting pusher wants its value back.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Pusher<T>> {
        self.waiting.remove(&ticket)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use crate::DelayQueue;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    /// Whatever becomes of those who wait, and of their futures, no answer stays behind.
    #[test]
    fn an_answer_that_nobody_collects_is_not_kept() {
        let queue = DelayQueue::builder().bound(1).build().expect("it has room");
        queue.push(0, Duration::ZERO).expect("there is room");
        for is_refused in [false, true] {
            let mut future = queue.push_async(1, Duration::ZERO);
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut future).poll(&mut context).is_pending());
            if is_refused {
                queue.close();
            } else {
                queue.try_take().expect("it is due");
            }
            let answers = || queue.0.peek(|state| state.line.ended.len());
            assert_eq!(answers(), 1);
            drop(future);
            assert_eq!(answers(), 0);
        }
    }
}

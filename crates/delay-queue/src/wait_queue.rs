//! The wait queue of a full queue: pushers, first come, first served.
//!
//! A pusher leaves its value here. The section that frees a place enters the first value and wakes
//! its owner, so an owner that sleeps, or a future that is never polled again, holds up no other.
//! Held under the queue's lock.

use std::collections::BTreeMap;

use crate::EntryId;
use crate::wait::WaiterId;
use crate::wait::{Waiter, WakeList};

pub(crate) struct WaitQueue<T> {
    waiting: BTreeMap<WaiterId, Pusher<T>>,
    /// Not collected by their owners yet. A value in here was refused: the queue was closed.
    ended: BTreeMap<WaiterId, Result<EntryId, T>>,
    next_id: WaiterId,
}

pub(crate) struct Pusher<T> {
    pub(crate) value: T,
    pub(crate) due: u64,
    pub(crate) waiter: Waiter,
}

/// The state of a pusher.
pub(crate) enum Wait<T> {
    /// Its value lies in the queue, under this id.
    Entered(EntryId),
    /// The queue was closed first.
    Refused(T),
    /// It waits.
    Waiting,
}

impl<T> WaitQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            ended: BTreeMap::new(),
            next_id: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing of any pusher is left.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn is_forgotten(&self) -> bool {
        self.waiting.is_empty() && self.ended.is_empty()
    }

    /// Enqueues a pusher at the end.
    pub(crate) fn enqueue(&mut self, pusher: Pusher<T>) -> WaiterId {
        self.next_id += 1;
        self.waiting.insert(self.next_id, pusher);
        self.next_id
    }

    /// Dequeues the first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(WaiterId, Pusher<T>)> {
        self.waiting.pop_first()
    }

    /// The popped pusher's value has been entered.
    pub(crate) fn serve(&mut self, id: WaiterId, entry: EntryId) {
        self.ended.insert(id, Ok(entry));
    }

    /// All values are refused.
    pub(crate) fn refuse_all(&mut self, wakes: &mut WakeList) {
        while let Some((id, pusher)) = self.waiting.pop_first() {
            self.ended.insert(id, Err(pusher.value));
            wakes.push(pusher.waiter);
        }
    }

    /// The state of a pusher. The answer is given once if the wait is over.
    pub(crate) fn look(&mut self, id: WaiterId) -> Wait<T> {
        match self.ended.remove(&id) {
            Some(Ok(id)) => Wait::Entered(id),
            Some(Err(value)) => Wait::Refused(value),
            None => Wait::Waiting,
        }
    }

    /// The waiting pusher is woken by this from now on. The old waiter is to be dropped when the
    /// lock is free.
    pub(crate) fn replace_waiter(&mut self, id: WaiterId, waiter: Waiter) -> Waiter {
        match self.waiting.get_mut(&id) {
            Some(pusher) => std::mem::replace(&mut pusher.waiter, waiter),
            None => waiter,
        }
    }

    /// The waiting pusher wants its value back.
    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Pusher<T>> {
        self.waiting.remove(&id)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use crate::DelayQueue;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    /// Whatever becomes of waiting pushers and their futures, no answer stays behind.
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
            let answers = || queue.0.peek(|state| state.pushers.ended.len());
            assert_eq!(answers(), 1);
            drop(future);
            assert_eq!(answers(), 0);
        }
    }
}

//! The drains: which wait for the end of the work, which are answered, and what is left for which.
//!
//! To be held under the queue's lock, like [`Waiters`](delay_queue::wait::Waiters) for those who
//! wait for a key. What is left over never leaves the lock before the drainer that it is for comes
//! to fetch it: so there is no moment at which a drainer may be gone and its answer on the way.
//!
//! # Invariants, whenever the lock is free
//! 1. A drain is *waiting* or *answered* from [`enter`](DrainWaiters::enter) until its owner has asked
//!    and was answered, or left.
//! 2. What was left over is with one answered drain, or unclaimed, or has been fetched.

use delay_queue::wait::{Waiter, WaiterId};

use crate::keys::Remaining;
use crate::policy::Outcome;

/// How a drain ended, and what was left, for the first.
pub(crate) struct Answer<K> {
    pub(crate) outcome: Outcome,
    pub(crate) rest: Option<Remaining<K>>,
}

pub(crate) struct DrainWaiters<K> {
    /// In the order in which they came.
    waiting: Vec<(WaiterId, Waiter)>,
    answered: Vec<(WaiterId, Answer<K>)>,
    /// What was left for a drain that was given up before it fetched it.
    unclaimed: Option<Remaining<K>>,
    next: WaiterId,
}

impl<K> DrainWaiters<K> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Vec::new(),
            answered: Vec::new(),
            unclaimed: None,
            next: 0,
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether this one does.
    pub(crate) fn waits(&self, id: WaiterId) -> bool {
        self.waiting.iter().any(|(other, _)| *other == id)
    }

    /// Enqueues a drain, whose waiter is to be woken when it is answered.
    pub(crate) fn enter(&mut self, waiter: Waiter) -> WaiterId {
        self.next += 1;
        self.waiting.push((self.next, waiter));
        self.next
    }

    /// All drains end. What is left, now and from drains that were given up, is for the first; if
    /// `rest` is `None` it stays. The waiters are to be woken when the lock is free.
    pub(crate) fn end(&mut self, outcome: Outcome, rest: Option<Remaining<K>>) -> Vec<Waiter> {
        let mut rest = rest.map(|rest| rest.behind(self.unclaimed.take()));
        let waiting = std::mem::take(&mut self.waiting);
        let mut waiters = Vec::with_capacity(waiting.len());
        for (id, waiter) in waiting {
            let rest = rest.take();
            self.answered.push((id, Answer { outcome, rest }));
            waiters.push(waiter);
        }
        if rest.is_some() {
            self.unclaimed = rest; // There was no drain to get it.
        }
        waiters
    }

    /// The answer, once. If there is none yet, `waiter` takes the place of the drain's own, and the old
    /// one comes back in its place, to be dropped when the lock is free.
    pub(crate) fn ask(&mut self, id: WaiterId, waiter: Option<&mut Waiter>) -> Option<Answer<K>> {
        let is_it = |other: WaiterId| other == id;
        if let Some(place) = self.answered.iter().position(|(other, _)| is_it(*other)) {
            return Some(self.answered.swap_remove(place).1);
        }
        let waiting = self.waiting.iter_mut().find(|(other, _)| is_it(*other));
        if let (Some((_, old)), Some(waiter)) = (waiting, waiter) {
            std::mem::swap(old, waiter);
        }
        None
    }

    /// The drain is given up: what it was answered is for the next one. What comes back is to be
    /// dropped when the lock is free.
    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Waiter> {
        if let Some(place) = self.waiting.iter().position(|(other, _)| *other == id) {
            return Some(self.waiting.remove(place).1);
        }
        if let Some(Answer { rest, .. }) = self.ask(id, None) {
            let earlier = self.unclaimed.take();
            self.unclaimed = match rest {
                Some(rest) => Some(rest.behind(earlier)),
                None => earlier,
            };
        }
        None
    }
}

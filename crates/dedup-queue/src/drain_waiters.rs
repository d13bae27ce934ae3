//! The drains: waiting ones, answered ones, and the leftovers for them.
//!
//! Held under the queue's lock, like the [`Waiters`](delay_queue::wait::Waiters) for a key.
//! Leftovers stay under the lock until the drain that they are for fetches them: so there is no
//! moment at which a drain may be gone while its answer is on the way.
//!
//! # Invariants, whenever the lock is free
//! 1. A drain is *waiting* or *answered* from [`enter`](DrainWaiters::enter) until its owner has
//!    fetched the answer, or has left.
//! 2. Leftovers belong to one answered drain, or are unclaimed, or have been fetched.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use delay_queue::wait::Waiter;

use crate::keys::Remaining;
use crate::policy::Outcome;

/// The reason for the end of a drain, and the leftovers for the first drain.
pub(crate) struct Answer<K> {
    pub(crate) outcome: Outcome,
    pub(crate) rest: Option<Remaining<K>>,
}

/// Identifies a drain, from the section that enqueues it until its owner has the answer or leaves.
/// Later ids are greater.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) struct DrainId(u64);

impl Ord for DrainId {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(all(test, not(anthill_loom)))]
        tests::count_comparison();
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for DrainId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for DrainId {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

pub(crate) struct DrainWaiters<K> {
    answers: Answers,
    /// Leftovers for drains that have been answered, oldest first.
    rests: Vec<(DrainId, Remaining<K>)>,
    /// Leftovers for a drain that was abandoned before it fetched them.
    unclaimed: Option<Remaining<K>>,
}

/// Waiters that are answered together, without the leftovers: not generic, so compiled once for all
/// keys.
#[derive(Default)]
pub(crate) struct Answers {
    waiting: BTreeMap<DrainId, Waiter>,
    answered: BTreeMap<DrainId, Outcome>,
    last: u64,
}

impl<K> DrainWaiters<K> {
    pub(crate) fn new() -> Self {
        Self {
            answers: Answers::default(),
            rests: Vec::new(),
            unclaimed: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.answers.waiting()
    }

    pub(crate) fn waits(&self, id: DrainId) -> bool {
        self.answers.waits(id)
    }

    /// Enqueues a drain, whose waiter must be woken when it is answered.
    pub(crate) fn enter(&mut self, waiter: Waiter) -> DrainId {
        self.answers.enter(waiter)
    }

    /// Ends all drains. The leftovers, including those of abandoned drains, are for the first; if
    /// `rest` is `None` they stay. The returned waiters must be woken when the lock is free.
    pub(crate) fn end(&mut self, outcome: Outcome, rest: Option<Remaining<K>>) -> Vec<Waiter> {
        let rest = rest.map(|rest| rest.behind(self.unclaimed.take()));
        let (first, waiters) = self.answers.end(outcome);
        match (first, rest) {
            (_, None) => {}
            (Some(first), Some(rest)) => self.rests.push((first, rest)),
            (None, Some(rest)) => self.unclaimed = Some(rest),
        }
        waiters
    }

    /// Returns the answer, once. If there is none yet, `waiter` is swapped with the drain's own;
    /// the old one must be dropped when the lock is free.
    pub(crate) fn ask(&mut self, id: DrainId, waiter: Option<&mut Waiter>) -> Option<Answer<K>> {
        let outcome = self.answers.ask(id, waiter)?;
        let rest = self.take_rest(id);
        Some(Answer { outcome, rest })
    }

    /// Abandons the drain: its leftovers are for the next one. The returned waiter must be dropped
    /// when the lock is free.
    pub(crate) fn leave(&mut self, id: DrainId) -> Option<Waiter> {
        if let Some(rest) = self.take_rest(id) {
            self.unclaimed = Some(rest.behind(self.unclaimed.take()));
        }
        self.answers.leave(id)
    }

    fn take_rest(&mut self, id: DrainId) -> Option<Remaining<K>> {
        let place = self.rests.partition_point(|(other, _)| *other < id);
        let is_it = self.rests.get(place).is_some_and(|(other, _)| *other == id);
        is_it.then(|| self.rests.remove(place).1)
    }
}

impl Answers {
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn waits(&self, id: DrainId) -> bool {
        self.waiting.contains_key(&id)
    }

    pub(crate) fn enter(&mut self, waiter: Waiter) -> DrainId {
        self.last += 1;
        let id = DrainId(self.last);
        self.waiting.insert(id, waiter);
        id
    }

    /// Answers all. Returns the first of them, and their waiters.
    pub(crate) fn end(&mut self, outcome: Outcome) -> (Option<DrainId>, Vec<Waiter>) {
        let waiting = std::mem::take(&mut self.waiting);
        let first = waiting.keys().next().copied();
        let mut waiters = Vec::with_capacity(waiting.len());
        for (id, waiter) in waiting {
            self.answered.insert(id, outcome);
            waiters.push(waiter);
        }
        (first, waiters)
    }

    pub(crate) fn ask(&mut self, id: DrainId, waiter: Option<&mut Waiter>) -> Option<Outcome> {
        if let (Some(waiter), Some(old)) = (waiter, self.waiting.get_mut(&id)) {
            std::mem::swap(old, waiter);
        }
        self.answered.remove(&id)
    }

    pub(crate) fn leave(&mut self, id: DrainId) -> Option<Waiter> {
        self.answered.remove(&id);
        self.waiting.remove(&id)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::cell::Cell;
    use std::task::Waker;

    use super::*;

    thread_local! {
        static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_comparison() {
        COMPARISONS.set(COMPARISONS.get() + 1);
    }

    fn enter(drains: &mut DrainWaiters<u32>, count: usize) -> Vec<DrainId> {
        let one = |_| drains.enter(Waiter::Task(Waker::noop().clone()));
        (0..count).map(one).collect()
    }

    /// Returns the number of ids compared per drain, for `count` drains in the worst known order.
    fn comparisons_per_drain(
        count: usize,
        end: fn(&mut DrainWaiters<u32>, &mut dyn Iterator<Item = DrainId>),
    ) -> [usize; 2] {
        [false, true].map(|newest_first| {
            let mut drains = DrainWaiters::new();
            let mut ids = enter(&mut drains, count);
            if newest_first {
                ids.reverse();
            }
            COMPARISONS.set(0);
            end(&mut drains, &mut ids.into_iter());
            assert_eq!(drains.len(), 0);
            COMPARISONS.get() / count
        })
    }

    fn grows_slowly(end: fn(&mut DrainWaiters<u32>, &mut dyn Iterator<Item = DrainId>)) {
        let (few, many) = (100, 6400);
        let (small, large) = (
            comparisons_per_drain(few, end),
            comparisons_per_drain(many, end),
        );
        for (small, large) in small.into_iter().zip(large) {
            // Six doublings, each of which may cost a dozen more comparisons in total.
            assert!(
                large <= small + 6 * 16,
                "{small} comparisons each of {few}, {large} each of {many}"
            );
        }
    }

    #[test]
    fn giving_up_one_of_many_waiting_drains_does_not_look_at_the_others() {
        grows_slowly(|drains, ids| {
            for id in ids {
                assert!(drains.leave(id).is_some());
            }
        });
    }

    #[testkit::test]
    fn asking_for_one_of_many_drains_does_not_look_at_the_others() {
        grows_slowly(|drains, ids| {
            let ids: Vec<_> = ids.collect();
            for &id in &ids {
                assert!(drains.waits(id));
                let mut waiter = Waiter::Task(Waker::noop().clone());
                assert!(drains.ask(id, Some(&mut waiter)).is_none());
            }
            drop(drains.end(Outcome::Finished, None));
            for id in ids {
                assert!(drains.ask(id, None).is_some());
            }
        });
    }

    #[test]
    fn giving_up_one_of_many_answered_drains_does_not_look_at_the_others() {
        grows_slowly(|drains, ids| {
            drop(drains.end(Outcome::Finished, None));
            for id in ids {
                assert!(drains.leave(id).is_none());
            }
            assert!(drains.answers.answered.is_empty());
        });
    }
}

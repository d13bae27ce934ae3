//! Who waits for the end of the work, who has been answered, and what is left for whom.
//!
//! To be held under the queue's lock, like [`Takers`](delay_queue::takers::Takers) for those who
//! wait for a key. What is left over never leaves the lock before the drainer that it is for comes
//! to fetch it: so there is no moment at which a drainer may be gone and its answer on the way.
//!
//! # Invariants, whenever the lock is free
//! 1. A seat is *waiting* or *answered* from [`enter`](Drainers::enter) until its owner has asked
//!    and was answered, or left.
//! 2. What was left over is with one answered seat, or unclaimed, or has been fetched.

use delay_queue::calls::Bell;

use crate::drain::Outcome;
use crate::keys::Rest;

/// Stands for one drain, from its beginning until it is answered or given up.
pub(crate) type Seat = u64;

/// How a drain ended, and what was left, for the first.
pub(crate) struct Answer<K> {
    pub(crate) outcome: Outcome,
    pub(crate) rest: Option<Rest<K>>,
}

pub(crate) struct Drainers<K> {
    /// In the order in which they came.
    waiting: Vec<(Seat, Bell)>,
    answered: Vec<(Seat, Answer<K>)>,
    /// What was left for a drain that was given up before it fetched it.
    unclaimed: Option<Rest<K>>,
    next: Seat,
}

impl<K> Drainers<K> {
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
    pub(crate) fn waits(&self, seat: Seat) -> bool {
        self.waiting.iter().any(|(other, _)| *other == seat)
    }

    /// One more drain, whose bell is to be rung when it is answered.
    pub(crate) fn enter(&mut self, bell: Bell) -> Seat {
        self.next += 1;
        self.waiting.push((self.next, bell));
        self.next
    }

    /// All drains end. What is left, now and from drains that were given up, is for the first; if
    /// `rest` is `None` it stays. The bells are to be rung when the lock is free.
    pub(crate) fn end(&mut self, outcome: Outcome, rest: Option<Rest<K>>) -> Vec<Bell> {
        let mut rest = rest.map(|rest| rest.behind(self.unclaimed.take()));
        let waiting = std::mem::take(&mut self.waiting);
        let mut bells = Vec::with_capacity(waiting.len());
        for (seat, bell) in waiting {
            let rest = rest.take();
            self.answered.push((seat, Answer { outcome, rest }));
            bells.push(bell);
        }
        if rest.is_some() {
            self.unclaimed = rest; // Nobody waited for it.
        }
        bells
    }

    /// The answer, once. If there is none yet, `bell` takes the place of the seat's bell, and the old
    /// one comes back in its place, to be dropped when the lock is free.
    pub(crate) fn ask(&mut self, seat: Seat, bell: Option<&mut Bell>) -> Option<Answer<K>> {
        let is_it = |other: Seat| other == seat;
        if let Some(place) = self.answered.iter().position(|(other, _)| is_it(*other)) {
            return Some(self.answered.swap_remove(place).1);
        }
        let waiting = self.waiting.iter_mut().find(|(other, _)| is_it(*other));
        if let (Some((_, old)), Some(bell)) = (waiting, bell) {
            std::mem::swap(old, bell);
        }
        None
    }

    /// The drain is given up: what it was answered is for the next one. What comes back is to be
    /// dropped when the lock is free.
    pub(crate) fn leave(&mut self, seat: Seat) -> Option<Bell> {
        if let Some(place) = self.waiting.iter().position(|(other, _)| *other == seat) {
            return Some(self.waiting.remove(place).1);
        }
        if let Some(Answer { rest, .. }) = self.ask(seat, None) {
            let earlier = self.unclaimed.take();
            self.unclaimed = match rest {
                Some(rest) => Some(rest.behind(earlier)),
                None => earlier,
            };
        }
        None
    }
}

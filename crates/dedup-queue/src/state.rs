//! What the queue's lock protects: the keys, who waits for one, and who waits for the end.
//!
//! A section changes the keys; [`State::settle`] then finds out who must be told of it.
//!
//! # Invariants, whenever the lock is free
//! 1. Those of `keys/mod.rs`, and those of [`Takers`].
//! 2. If the queue is closed, no taker waits uncalled.
//! 3. While somebody drains, something is ready or held.

use std::sync::Arc;
use std::task::Waker;

use delay_queue::calls::Calls;
use delay_queue::takers::{Arming, Stock, Takers, Ticket};
use sync_shim::Parker;

use crate::drain::{Leftovers, Outcome, Seat};
use crate::keys::{Keys, Noted, Phase, Rest, Settings};
use crate::records::Gone;

pub(crate) struct State<K> {
    pub(crate) keys: Keys<K>,
    pub(crate) takers: Takers,
    /// In the order in which they came.
    pub(crate) drainers: Vec<Arc<Seat<K>>>,
    /// What a drain left, whose future was dropped before it was asked.
    pub(crate) unclaimed: Option<Leftovers<K>>,
}

/// A drain has ended: whom to tell, and what.
pub(crate) struct DrainsEnd<K> {
    pub(crate) seats: Vec<Arc<Seat<K>>>,
    pub(crate) outcome: Outcome,
    /// For the first of them.
    pub(crate) rest: Option<Rest<K>>,
    pub(crate) unclaimed: Option<Leftovers<K>>,
}

/// What a section leaves to be done when the lock is free.
#[must_use = "somebody waits for it"]
pub(crate) struct Debts<K> {
    pub(crate) calls: Calls,
    pub(crate) arming: Option<Arming>,
    pub(crate) drains: Option<DrainsEnd<K>>,
    pub(crate) noted: Noted,
    pub(crate) gone: Vec<Gone<K>>,
}

impl<K> State<K> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            keys: Keys::new(settings),
            takers: Takers::new(),
            drainers: Vec::new(),
            unclaimed: None,
        }
    }

    /// Nobody need be told of anything. What a section of a busy queue ends with, so it is one word.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.keys.is_settled()
    }

    /// A thread that found nothing ready is about to sleep: its ticket, and until when at most.
    pub(crate) fn enrol_thread(&mut self, parker: Parker) -> (Ticket, Option<u64>) {
        self.keys.unsettle();
        self.takers.enrol_thread(parker, self.keys.next_due())
    }

    /// A future that found nothing ready is about to be pending.
    pub(crate) fn enrol_future(&mut self, waker: Waker) -> Ticket {
        self.keys.unsettle();
        self.takers.enrol_future(waker)
    }

    /// Somebody waits for the end.
    pub(crate) fn begin_drain(&mut self, seat: Arc<Seat<K>>) {
        self.keys.unsettle();
        self.keys.shut_down();
        self.drainers.push(seat);
    }

    /// Finds out what is owed to whom after a section.
    pub(crate) fn settle(&mut self) -> Debts<K> {
        let mut calls = Calls::none();
        let drains = (!self.drainers.is_empty() && self.keys.is_drained())
            .then(|| self.end_drains(Outcome::Finished));
        let arming = if self.takers.waiting() == 0 {
            None
        } else if self.keys.is_closed() {
            self.takers.call_all(&mut calls);
            None
        } else {
            self.takers.settle(&mut self.keys, &mut calls)
        };
        let watched = self.takers.waiting() > 0 || !self.drainers.is_empty();
        self.keys.settled(watched);
        Debts {
            calls,
            arming,
            drains,
            noted: std::mem::take(&mut self.keys.noted),
            gone: std::mem::take(&mut self.keys.gone),
        }
    }

    /// Adds are refused from now on, and whoever drains is told that it is over.
    pub(crate) fn shut_down(&mut self) -> Option<DrainsEnd<K>> {
        self.keys.shut_down();
        (!self.drainers.is_empty()).then(|| self.end_drains(Outcome::ShutDown))
    }

    /// All drains end. Unless a shut-down is the reason, so does delivery.
    pub(crate) fn end_drains(&mut self, outcome: Outcome) -> DrainsEnd<K> {
        let rest = (outcome != Outcome::ShutDown).then(|| self.keys.stop());
        let unclaimed = if rest.is_some() {
            self.unclaimed.take()
        } else {
            None
        };
        DrainsEnd {
            seats: std::mem::take(&mut self.drainers),
            outcome,
            rest,
            unclaimed,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.keys.phase() == Phase::Open
    }
}

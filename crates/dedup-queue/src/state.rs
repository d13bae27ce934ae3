//! What the queue's lock protects: the keys, who waits for one, and who waits for the end.
//!
//! A section changes the keys; [`State::settle`] then finds out who must be told of it.
//!
//! # Invariants, whenever the lock is free
//! 1. Those of `keys/mod.rs`, and those of [`Takers`].
//! 2. If the queue is closed, no taker waits uncalled.
//! 3. While somebody drains, something is ready or held.

use std::io;
use std::task::Waker;

use delay_queue::calls::{Bell, Calls};
use delay_queue::takers::{Arming, Spent, Stock, Takers, Ticket};
use sync_shim::{Alarm, Parker};

use crate::drain::Outcome;
use crate::drainers::{Drainers, Seat};
use crate::keys::{Keys, Noted, Phase, Settings};
use crate::records::Gone;

pub(crate) struct State<K> {
    pub(crate) keys: Keys<K>,
    pub(crate) takers: Takers,
    pub(crate) drainers: Drainers<K>,
    /// Of drainers that have been answered in this section.
    answered: Vec<Bell>,
    /// How many alarms have been given out to be set, and not been heard of again. Each of those who
    /// set them settles next.
    arming: usize,
}

/// What a section leaves to be done when the lock is free.
#[must_use = "somebody waits for it"]
pub(crate) struct Debts<K> {
    pub(crate) calls: Calls,
    pub(crate) arming: Option<Arming>,
    pub(crate) noted: Noted,
    pub(crate) gone: Vec<Gone<K>>,
}

impl<K> Debts<K> {
    /// Those of a later section, too. Its alarm has been seen to.
    pub(crate) fn absorb(&mut self, more: Self) {
        self.calls.append(more.calls);
        self.noted.adds += more.noted.adds;
        self.noted.depth += more.noted.depth;
        self.gone.extend(more.gone);
    }
}

impl<K> State<K> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            keys: Keys::new(settings),
            takers: Takers::new(),
            drainers: Drainers::new(),
            answered: Vec::new(),
            arming: 0,
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

    /// A future that found nothing ready is about to be pending. If it has waited before, it has its
    /// place again.
    pub(crate) fn enrol_future(&mut self, waker: Waker, before: Option<Ticket>) -> Ticket {
        self.keys.unsettle();
        match before {
            Some(ticket) => {
                self.takers.enrol_again(ticket, waker);
                ticket
            }
            None => self.takers.enrol_future(waker),
        }
    }

    /// Adds are refused from now on.
    pub(crate) fn refuse_adds(&mut self) {
        self.keys.unsettle();
        self.keys.shut_down();
    }

    /// One more waits for the end.
    pub(crate) fn begin_drain(&mut self, bell: Bell) -> Seat {
        self.refuse_adds();
        self.drainers.enter(bell)
    }

    /// What became of setting an alarm. The section must settle.
    pub(crate) fn armed(
        &mut self,
        arming: &Arming,
        alarm: io::Result<Alarm>,
        calls: &mut Calls,
    ) -> Spent {
        self.arming -= 1;
        self.takers.armed(arming, alarm, calls)
    }

    /// Whether an alarm is being set.
    pub(crate) fn is_arming(&self) -> bool {
        self.arming > 0
    }

    /// Finds out what is owed to whom after a section.
    pub(crate) fn settle(&mut self) -> Debts<K> {
        let mut calls = Calls::none();
        if self.drainers.len() > 0 && self.keys.is_drained() {
            self.end_drains(Outcome::Finished);
        }
        let arming = if self.takers.waiting() == 0 {
            None
        } else if self.keys.is_closed() {
            self.takers.call_all(&mut calls);
            None
        } else {
            self.takers.settle(&mut self.keys, &mut calls)
        };
        self.arming += usize::from(arming.is_some());
        for bell in self.answered.drain(..) {
            calls.add(bell);
        }
        let watched = self.takers.waiting() > 0 || self.drainers.len() > 0;
        self.keys.settled(watched);
        Debts {
            calls,
            arming,
            noted: std::mem::take(&mut self.keys.noted),
            gone: std::mem::take(&mut self.keys.gone),
        }
    }

    /// Adds are refused from now on, and all drains end.
    pub(crate) fn shut_down(&mut self) {
        self.refuse_adds();
        self.end_drains(Outcome::ShutDown);
    }

    /// All drains end. Unless a shut-down is the reason, so does delivery.
    pub(crate) fn end_drains(&mut self, outcome: Outcome) {
        self.keys.unsettle();
        let rest = (outcome != Outcome::ShutDown).then(|| self.keys.stop());
        self.answered.append(&mut self.drainers.end(outcome, rest));
    }

    pub(crate) fn is_open(&self) -> bool {
        self.keys.phase() == Phase::Open
    }
}

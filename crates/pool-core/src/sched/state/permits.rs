//! Sections that reserve, use and return the room of permits.
//!
//! A waiting permit request is an ordinary entry of the wait queue (`state.rs`), and admission treats it like a
//! task (`decide.rs`).
//!
//! # Invariants
//! 1. A permit holds room until it is used or returned. A used permit's room passes to its task.
//! 2. While a permit is out some worker is live, also in a released pool. So a permit's task is pushed like any
//!    other one and never has to start a thread.

use super::State;
use crate::sched::effects::Effects;

impl<J> State<J> {
    /// Step P1: gives free room to a permit.
    pub(crate) fn reserve(&mut self) {
        debug_assert!(self.live > 0, "a permit is given where a worker lives");
        self.reserved += 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.enter();
        }
    }

    /// Step P2: queues the permit's task with the permit's room. Never refuses: the pool may be full, tuned down or
    /// released.
    pub(crate) fn redeem(&mut self, job: J, effects: &mut Effects<J>) {
        // In the section that counts the task, so that no other submit sees the room as free in between.
        self.reserved -= 1;
        self.push(job, effects);
        self.notify_workers(effects);
        self.permit_gone(effects);
    }

    /// Step P3: returns the room of an unused permit to the head of the wait queue.
    pub(crate) fn give_back_room(&mut self, effects: &mut Effects<J>) {
        self.reserved -= 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(1);
        }
        // Waiters first, so that the freed room cannot be taken by a later submit.
        self.admit_heads(effects);
        self.notify_workers(effects);
        self.permit_gone(effects);
    }

    /// Step P4: lets the worker go that was kept for the last permit.
    pub(super) fn permit_gone(&mut self, effects: &mut Effects<J>) {
        // The other permits still need a worker: a released pool starts none.
        if self.reserved > 0 {
            return;
        }
        if self.open {
            self.time_core_workers(effects);
        } else {
            self.dismiss_idle(effects);
        }
    }
}

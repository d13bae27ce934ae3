//! Sections of permits: room that is reserved, used and given back.
//!
//! Not for: who gets one. A permit stands in the wait queue like a task (`state.rs`), and is decided
//! about like one (`decide.rs`).
//!
//! # What always holds
//! 1. A permit holds room until it is used, and then its task holds that room; or until it is given
//!    back.
//! 2. While a permit is out some worker is live, also in a released pool. So a permit's task is
//!    pushed as any other, and no thread has to be started for it.

use super::State;
use crate::sched::effects::Effects;

impl<J> State<J> {
    /// Step P1: room, of which there is some, is held by a permit from now on.
    pub(crate) fn reserve(&mut self) {
        debug_assert!(self.live > 0, "a permit is given where a worker lives");
        self.reserved += 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.enter();
        }
    }

    /// Step P2: the permit's task takes the permit's room over. Never refused: the pool may be full,
    /// tuned down or released.
    pub(crate) fn redeem(&mut self, job: J, effects: &mut Effects<J>) {
        self.reserved -= 1;
        self.push(job, effects);
        self.notify_workers(effects);
        self.permit_gone(effects);
    }

    /// Step P3: an unused permit's room goes to the wait queue's head.
    pub(crate) fn give_back_room(&mut self, effects: &mut Effects<J>) {
        self.reserved -= 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(1);
        }
        self.admit_heads(effects);
        self.notify_workers(effects);
        self.permit_gone(effects);
    }

    /// Step P4: the worker that the last permit has kept is kept no longer.
    pub(super) fn permit_gone(&mut self, effects: &mut Effects<J>) {
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

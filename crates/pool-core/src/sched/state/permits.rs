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

use sync_shim::thread::thread_number;

use super::State;
use crate::sched::effects::Effects;
use crate::task::run::Outcome;

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

    /// Step K3: a task has ended whose worker goes on to one that holds a permit, which takes the
    /// ended one's place. Without a decision, as [`go_on`](State::go_on): `false` if there is one
    /// to be made.
    #[inline]
    pub(crate) fn pass_on(&mut self, outcome: Outcome) -> bool {
        // The last permit may have kept a worker (P4).
        let keeps_none = self.reserved > 1 || self.open && self.untimed.is_empty();
        if !self.fast_path || self.reserved == 0 || !keeps_none || self.discards {
            return false;
        }
        self.use_up_permit(outcome);
        true
    }

    fn use_up_permit(&mut self, outcome: Outcome) {
        self.counts.count(outcome);
        self.counts.submitted += 1;
        self.reserved -= 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(1);
        }
    }

    /// Step K4: a task has ended, and its worker leaves the next one of its key, which holds a
    /// permit, to the queue: `job` is that key's turn, and takes the ended one's place. The room that
    /// is free now goes to waiters. The worker is busy, with no task, until it reports
    /// [`PassedOn`](Outcome::PassedOn).
    pub(crate) fn pass_to_queue(&mut self, outcome: Outcome, job: J, effects: &mut Effects<J>) {
        self.use_up_permit(outcome);
        self.queue.push(job);
        effects.searchers |= self.searching > 0;
        self.admit_heads(effects);
        self.notify_workers(effects);
        self.permit_gone(effects);
    }

    /// Step K5: so many tasks that hold permits will not be run: this thread drops them, and says so
    /// for each ([`disposed`](State::disposed)).
    pub(crate) fn discard_reserved(&mut self, count: usize, effects: &mut Effects<J>) {
        self.reserved -= count;
        self.counts.submitted += count as u64;
        self.disposing += count;
        self.disposers.push(thread_number());
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(count);
        }
        self.permit_gone(effects);
    }

    /// Step P4: the worker that the last permit has kept is kept no longer.
    fn permit_gone(&mut self, effects: &mut Effects<J>) {
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

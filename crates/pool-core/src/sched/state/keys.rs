//! Sections of keys: a task ends, and the next of its key takes its place.
//!
//! Not for: which task that is. The lanes lie outside the pool (`keyed.rs`); here a task that waits
//! in one is a permit.
//!
//! # What always holds
//! While a task waits in a lane, one task of its key is in flight. So the pool is not at rest between
//! the two, and some worker is live.

use sync_shim::thread::thread_number;

use super::State;
use crate::sched::effects::Effects;
use crate::task::run::Outcome;

impl<J> State<J> {
    /// Step K3b: a task has ended whose worker goes on to one that holds a permit, which takes the
    /// ended one's place. Without a decision, as [`go_on`](State::go_on): `false` if there is one
    /// to be made.
    #[inline]
    pub(crate) fn pass_on(&mut self, outcome: Outcome) -> bool {
        // The last permit may have kept a worker (P4).
        let keeps_none = self.reserved > 1 || self.open && self.untimed.is_empty();
        let is_decided = self.fast_path && !self.queue.has_levels();
        if !is_decided || self.reserved == 0 || !keeps_none || self.discards {
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
}

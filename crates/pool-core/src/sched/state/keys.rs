//! Sections that end a keyed task and let the next one of its key take its place.
//!
//! The lanes, which decide which task that is, lie outside the pool (`keyed.rs`). To the pool, a task in a lane
//! is a permit.
//!
//! # Invariant
//! While a task waits in a lane, one task of its key is in flight. So the pool is not idle between the two, and
//! some worker is live.

use sync_shim::thread::thread_number;

use super::State;
use crate::sched::effects::Effects;
use crate::sched::load::Outcome;

impl<J> State<J> {
    /// Step K3b: ends a task whose worker continues with one that holds a permit and takes the ended one's place.
    /// Like [`go_on`](State::go_on) it makes no decision: it returns `false`, without a change, if one is needed.
    #[inline]
    pub(crate) fn pass_on(&mut self, outcome: Outcome) -> bool {
        // The last permit may be what keeps a worker (P4), and its return must be decided.
        let keeps_none = self.reserved > 1 || self.open && self.untimed.is_empty();
        let is_decided = self.fast_path && !self.queue.has_levels();
        // After a `release_now` the next task must be discarded, not run.
        if !is_decided || self.reserved == 0 || !keeps_none || self.discards {
            return false;
        }
        self.use_up_permit(outcome);
        true
    }

    fn use_up_permit(&mut self, outcome: Outcome) {
        // Two changes that cancel out in `in_flight`: the ended task's room becomes the next one's.
        self.counts.count(outcome);
        self.counts.submitted += 1;
        self.reserved -= 1;
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(1);
        }
    }

    /// Step K4: ends a task and queues `job`, its key's next turn, in its place. The next task of the key holds a
    /// permit, which is used up. Freed room goes to waiting submitters. The worker counts as busy without a task
    /// until it reports [`PassedOn`](Outcome::PassedOn).
    pub(crate) fn pass_to_queue(&mut self, outcome: Outcome, job: J, effects: &mut Effects<J>) {
        self.use_up_permit(outcome);
        // Before waiters are admitted: the turn takes over the ended task's room, so it overtakes nobody.
        self.queue.push(job);
        effects.searchers |= self.searching > 0;
        self.admit_heads(effects);
        self.notify_workers(effects);
        self.permit_gone(effects);
    }

    /// Step K5: marks `count` tasks that hold permits as discarded. The calling thread drops them and reports each
    /// end with [`disposed`](State::disposed).
    pub(crate) fn discard_reserved(&mut self, count: usize, effects: &mut Effects<J>) {
        self.reserved -= count;
        self.counts.submitted += count as u64;
        self.disposing += count;
        // Recorded, so that a destructor that waits for its own disposal is refused.
        self.disposers.push(thread_number());
        if let Some(load_stats) = &self.load_stats {
            load_stats.leave(count);
        }
        self.permit_gone(effects);
    }
}

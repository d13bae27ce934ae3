//! Sections of declared blocking: for each blocked worker the pool may have an additional one, up to a limit.
//!
//! All decisions are made with the raised capacity (`State::workers`).
//!
//! # Invariants
//! 1. `compensating` is the number of workers between B1 and B2 that were let in. It is at most
//!    `max_compensation`.
//! 2. A section that lowers it retires an idle excess worker. An excess worker that is busy or being started
//!    retires itself, as after a change of the capacity.

use super::State;
use crate::sched::effects::Effects;

impl<J> State<J> {
    /// Step B1: a worker is about to block, so another one may take its place. Returns `false` if the limit of
    /// compensating workers is reached.
    pub(crate) fn begin_blocking(&mut self, effects: &mut Effects<J>) -> bool {
        if self.compensating >= self.max_compensation {
            return false;
        }
        self.compensating += 1;
        self.show_size();
        // Room grows with the number of workers, so a waiting submitter may be admitted.
        self.admit_heads(effects);
        // Queued tasks may be what the blocked one waits for, so they must not wait for the next submit.
        self.notify_workers(effects);
        true
    }

    /// Step B2: the worker no longer blocks.
    pub(crate) fn end_blocking(&mut self, effects: &mut Effects<J>) {
        self.compensating -= 1;
        // After the count: the excess exists only by the lower number.
        self.retire_excess(effects);
        self.show_size();
    }

    /// Maximum number of workers at this moment.
    #[inline]
    pub(crate) fn workers(&self) -> usize {
        self.capacity.saturating_add(self.compensating)
    }
}

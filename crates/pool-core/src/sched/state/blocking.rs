//! Sections of tasks that block: for each the pool may have one worker more, within a limit.
//!
//! Not for: what is decided by that number, which is the capacity of all decisions (`State::workers`).
//!
//! # What always holds
//! 1. `compensating` counts the workers between B1 and B2 that were let in, and is at most
//!    `max_compensation`.
//! 2. A section that makes it one less retires an idle excess worker. One that is busy or being started
//!    finds itself one too many, as after a tuning.

use super::State;
use crate::sched::effects::Effects;

impl<J> State<J> {
    /// Step B1: a worker is about to block, and another may be there. `false` if there are as many as
    /// may be for such.
    pub(crate) fn begin_blocking(&mut self, effects: &mut Effects<J>) -> bool {
        if self.compensating >= self.max_compensation {
            return false;
        }
        self.compensating += 1;
        self.show_size();
        self.admit_heads(effects);
        self.notify_workers(effects);
        true
    }

    /// Step B2: it blocks no more.
    pub(crate) fn end_blocking(&mut self, effects: &mut Effects<J>) {
        self.compensating -= 1;
        self.retire_excess(effects);
        self.show_size();
    }

    /// Workers there may be at this moment.
    #[inline]
    pub(crate) fn workers(&self) -> usize {
        self.capacity.saturating_add(self.compensating)
    }
}

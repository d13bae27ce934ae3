//! Sections that pause a pool and let it go on.
//!
//! Not for: what a paused pool decides, which `decide.rs` says.
//!
//! # What always holds
//! 1. From the section that pauses to the one that resumes no task leaves the queue to be started.
//!    (One that a worker took before may start after it.)
//! 2. A released pool is not paused: what it accepted is run, or dropped by a `release_now`.
//! 3. While tasks are queued some worker is live, paused or not; more may expire.

use super::State;
use crate::sched::decide::MOST_NOTIFIED;
use crate::sched::effects::Effects;

impl<J> State<J> {
    /// No queued task starts any more. `false` if that is so already, or the pool is released.
    pub(crate) fn pause(&mut self) -> bool {
        let pauses = self.open && !self.paused;
        self.paused |= pauses;
        pauses
    }

    /// Queued tasks start again: workers are notified as for a burst of them. `false` if the pool
    /// is not paused.
    pub(crate) fn resume(&mut self, effects: &mut Effects<J>) -> bool {
        let was_paused = std::mem::replace(&mut self.paused, false);
        if was_paused {
            for _ in 0..self.queued().min(MOST_NOTIFIED) {
                self.notify_workers(effects);
            }
            // One may have been kept for the queue.
            self.time_core_workers(effects);
        }
        was_paused
    }
}

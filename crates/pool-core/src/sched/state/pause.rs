//! Sections that pause and resume a pool. `decide.rs` decides what a paused pool does.
//!
//! # Invariants
//! 1. Between the section that pauses and the one that resumes, no task leaves the queue to be started. A task
//!    that a worker had taken before may still start.
//! 2. A released pool is not paused: its accepted tasks are run, or dropped by a `release_now`.
//! 3. While tasks are queued some worker is live, paused or not. Additional workers may expire.

use super::State;
use crate::sched::decide::MOST_NOTIFIED;
use crate::sched::effects::Effects;

impl<J> State<J> {
    /// Pauses the pool. Returns `false` if it was paused already, or has been released.
    pub(crate) fn pause(&mut self) -> bool {
        let pauses = self.open && !self.paused;
        self.paused |= pauses;
        pauses
    }

    /// Resumes the pool and notifies workers as for a burst of tasks. Returns `false` if it was not paused.
    pub(crate) fn resume(&mut self, effects: &mut Effects<J>) -> bool {
        let was_paused = std::mem::replace(&mut self.paused, false);
        if was_paused {
            // Each call wakes at most one worker.
            for _ in 0..self.queued().min(MOST_NOTIFIED) {
                self.notify_workers(effects);
            }
            // While the pool was paused a worker may have been kept for the queue, which would now be one too many.
            self.time_core_workers(effects);
        }
        was_paused
    }
}

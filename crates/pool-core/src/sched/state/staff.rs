//! Sections of workers that come, stay and go.
//!
//! Not for: tasks. A worker that comes or stays looks for them elsewhere.

use std::sync::Arc;
use std::time::Instant;

use sync_shim::thread::JoinHandle;

use super::State;
use crate::sched::decide::{Notify, Without};
use crate::sched::effects::Effects;
use crate::sched::exits::Exit;
use crate::sched::idle::{WakeReason, WorkerCell};

impl<J> State<J> {
    /// A parked worker is awake, and was not notified: whether it is to wait for its time-out.
    pub(crate) fn is_timed(&mut self, cell: &Arc<WorkerCell>, since: Option<Instant>) -> bool {
        let timed = self.view().without_work(self.core_workers) != Without::Park;
        if !timed {
            self.keep(cell, since);
        }
        timed
    }

    /// A worker parks without a time-out. Where there are any, others that come make it one too
    /// many.
    pub(super) fn keep(&mut self, cell: &Arc<WorkerCell>, since: Option<Instant>) {
        if since.is_some() && !cell.set_untimed(true) {
            self.untimed.push(Arc::clone(cell));
        }
    }

    /// One more worker stays than did. If these are more than are kept, those that parked without a
    /// time-out look at it again: one of them may be the one too many.
    pub(super) fn time_core_workers(&mut self, effects: &mut Effects<J>) {
        if self.untimed.is_empty() || self.live - self.leaving <= self.kept() {
            return;
        }
        for cell in self.untimed.drain(..) {
            cell.set_untimed(false);
            if cell.wake_reason() == WakeReason::Parked {
                effects.wake_worker(&cell);
            }
        }
    }

    /// Retires the parked workers that have been idle since `limit` or longer.
    pub(crate) fn expire(&mut self, limit: Instant, effects: &mut Effects<J>) {
        let above = (self.live - self.leaving).saturating_sub(self.kept());
        let stale = self.idle.expire(limit, above);
        self.dismiss(stale, effects);
    }

    /// Retires parked workers that there are too many of.
    pub(crate) fn retire_excess(&mut self, effects: &mut Effects<J>) {
        let excess = self.view().excess();
        let cells = self.idle.retire_oldest(excess);
        self.dismiss(cells, effects);
    }

    /// Workers that do not expire.
    fn kept(&self) -> usize {
        self.view().kept(self.core_workers)
    }

    /// A released pool's parked workers go, but for the one that a permit keeps.
    pub(super) fn dismiss_idle(&mut self, effects: &mut Effects<J>) {
        let kept = self.view().kept_for_permits();
        let above = (self.live - self.leaving).saturating_sub(kept);
        let idle = self.idle.retire_oldest(above.min(self.idle.len()));
        self.dismiss(idle, effects);
    }

    pub(super) fn dismiss(&mut self, cells: Vec<Arc<WorkerCell>>, effects: &mut Effects<J>) {
        self.leaving += cells.len();
        for cell in cells {
            effects.wake_worker(&cell);
        }
    }

    /// Steps W4 and W10: a retired worker looks again: if work came that it must not leave behind,
    /// it searches.
    pub(crate) fn recall(&mut self, effects: &mut Effects<J>) -> bool {
        let stays = self.view().must_stay();
        if stays {
            self.leaving -= 1;
            self.searching += 1;
            self.time_core_workers(effects);
        }
        stays
    }

    /// As [`recall`](State::recall), by a worker whose stop hook has run: its start hook runs again
    /// before it looks for the work, if there is one.
    pub(crate) fn stay(&mut self, effects: &mut Effects<J>) -> bool {
        let stays = self.recall(effects);
        if stays && self.hooked {
            self.searching -= 1;
            self.entering += 1;
        }
        stays
    }

    /// A worker's start hook has run.
    pub(crate) fn entered(&mut self) {
        self.entering -= 1;
    }

    /// Step W10: the worker is gone, but for its thread, unless too many threads are ending. It
    /// must have asked [`stay`](State::stay) in the same section.
    pub(crate) fn depart(
        &mut self,
        cell: &Arc<WorkerCell>,
        thread: &mut Option<JoinHandle>,
        effects: &mut Effects<J>,
    ) -> Exit {
        if self.ending.is_full(self.counts.peak_live) {
            return self.ending.make_room();
        }
        if cell.set_untimed(false) {
            self.untimed.retain(|other| !Arc::ptr_eq(other, cell));
        }
        self.leaving -= 1;
        self.live -= 1;
        self.slots.give_back(cell.slot);
        self.show_size();
        self.counts.retired += 1;
        self.set_if_ended(effects);
        // Who ends a pool joins them all.
        let before = if self.open {
            self.ending.take_gone()
        } else {
            Vec::new()
        };
        self.ending.enter(thread.take());
        Exit::Gone(before)
    }

    /// So many threads have been joined.
    pub(crate) fn joined(&mut self, threads: usize, effects: &mut Effects<J>) {
        self.ending.leave(threads, effects.wakes());
    }

    /// Step R3.
    pub(crate) fn set_if_ended(&mut self, effects: &mut Effects<J>) {
        if self.view().ended() {
            effects.set_all(&mut self.on_end);
        }
    }

    /// Step N5: a start has come to its end; the worker searches from now on, or runs its hook.
    pub(crate) fn started(&mut self, success: bool, effects: &mut Effects<J>) {
        self.starting = false;
        if success {
            self.live += 1;
            if self.hooked {
                self.entering += 1;
            } else {
                self.searching += 1;
            }
            self.spoken_for = true;
            self.time_core_workers(effects);
            self.counts.started += 1;
            self.counts.peak_live = self.counts.peak_live.max(self.live);
            self.show_size();
        } else {
            self.counts.start_failures += 1;
        }
    }

    /// Tasks that came while a worker was being started have notified no worker. If there are more
    /// of them than workers on their way in, and those run a hook first, another start is reserved.
    pub(crate) fn reserve_another(&mut self) -> bool {
        let on_their_way = self.searching + self.entering;
        let another = self.hooked
            && self.queue.len() > on_their_way
            && self.view().wake_policy() == Notify::Start;
        self.starting |= another;
        another
    }
}

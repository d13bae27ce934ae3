//! Sections that count workers in and out, park them and retire them.

use std::sync::Arc;
use std::time::Instant;

use sync_shim::thread::JoinHandle;

use super::State;
use crate::sched::decide::{Notify, Without};
use crate::sched::effects::Effects;
use crate::sched::workers::{Exit, WakeReason, WorkerCell};

impl<J> State<J> {
    /// Whether a parked worker that woke up without a notification waits with a timeout from now on.
    pub(crate) fn is_timed(&mut self, cell: &Arc<WorkerCell>, since: Option<Instant>) -> bool {
        let timed = self.view().without_work(self.core_workers) != Without::Park;
        if !timed {
            self.keep(cell, since);
        }
        timed
    }

    /// Registers a worker that parks without a timeout. It is woken if additional workers make it excess.
    pub(super) fn keep(&mut self, cell: &Arc<WorkerCell>, since: Option<Instant>) {
        // Without a keep-alive no worker expires, so there is nothing to reconsider.
        if since.is_some() && !cell.set_untimed(true) {
            self.untimed.push(Arc::clone(cell));
        }
    }

    /// Wakes the workers that parked without a timeout, after a change that leaves more workers than are kept.
    /// Each of them decides again whether it may expire.
    pub(super) fn time_core_workers(&mut self, effects: &mut Effects<J>) {
        if self.untimed.is_empty() || self.live - self.leaving <= self.kept() {
            return;
        }
        // All, because which of them is one too many depends on the order in which they look again. One that
        // was notified meanwhile decides anyway before it parks again.
        for cell in self.untimed.drain(..) {
            cell.set_untimed(false);
            if cell.wake_reason() == WakeReason::Parked {
                // Not notified and not counted as searching: it only looks at its timeout and parks again.
                effects.wake_worker(&cell);
            }
        }
    }

    /// Retires the parked workers that have been idle since `limit` or earlier.
    pub(crate) fn expire(&mut self, limit: Instant, effects: &mut Effects<J>) {
        // The section decides the number, because several workers may find their time up at the same moment.
        let above = (self.live - self.leaving).saturating_sub(self.kept());
        // Bounded by the number above the kept ones: core workers are in the idle set as well, and must stay.
        let stale = self.idle.expire(limit, above);
        self.dismiss(stale, effects);
    }

    /// Retires as many parked workers as there are too many.
    pub(crate) fn retire_excess(&mut self, effects: &mut Effects<J>) {
        let excess = self.view().excess();
        // The oldest, whose caches are cold. Busy excess workers retire themselves after their task.
        let cells = self.idle.retire_oldest(excess);
        self.dismiss(cells, effects);
    }

    /// Number of workers that do not expire.
    fn kept(&self) -> usize {
        self.view().kept(self.core_workers)
    }

    /// Retires a released pool's parked workers, except one if a permit needs it.
    pub(super) fn dismiss_idle(&mut self, effects: &mut Effects<J>) {
        let kept = self.view().kept_for_permits();
        let above = (self.live - self.leaving).saturating_sub(kept);
        let idle = self.idle.retire_oldest(above.min(self.idle.len()));
        self.dismiss(idle, effects);
    }

    pub(super) fn dismiss(&mut self, cells: Vec<Arc<WorkerCell>>, effects: &mut Effects<J>) {
        // Counted here and not by the worker: until it is awake nobody must count on it.
        self.leaving += cells.len();
        for cell in cells {
            effects.wake_worker(&cell);
        }
    }

    /// Steps W4 and W10: whether a retired worker has to stay, because work came that it must not leave behind. It
    /// searches then.
    pub(crate) fn recall(&mut self, effects: &mut Effects<J>) -> bool {
        let stays = self.view().must_stay();
        if stays {
            // Counted back in the section that saw the work, so that a submit that follows relies on this worker.
            self.leaving -= 1;
            self.searching += 1;
            self.time_core_workers(effects);
        }
        stays
    }

    /// Like [`recall`](State::recall), for a worker whose stop hook has run. It first runs its start hook again, if
    /// there is one.
    pub(crate) fn stay(&mut self, effects: &mut Effects<J>) -> bool {
        let stays = self.recall(effects);
        if stays && self.hooked {
            // A worker in its start hook is busy with user code, so submitters must not count on its look.
            self.searching -= 1;
            self.entering += 1;
        }
        stays
    }

    /// A worker's start hook has run.
    pub(crate) fn entered(&mut self) {
        self.entering -= 1;
    }

    /// Step W10: counts a worker out, unless too many threads are ending. The caller must have asked
    /// [`stay`](State::stay) in the same section.
    pub(crate) fn depart(
        &mut self,
        cell: &Arc<WorkerCell>,
        thread: &mut Option<JoinHandle>,
        effects: &mut Effects<J>,
    ) -> Exit {
        // Before anything is counted: the worker asks again after it has made room, and work may have come by then.
        if self.ending.is_full(self.counts.peak_live) {
            return self.ending.make_room();
        }
        // Otherwise the list would keep the cell of a worker that is gone.
        if cell.set_untimed(false) {
            self.untimed.retain(|other| !Arc::ptr_eq(other, cell));
        }
        self.leaving -= 1;
        self.live -= 1;
        // Not before: while the worker runs its stop hook its slot must not belong to another one.
        self.slots.give_back(cell.slot);
        self.show_size();
        self.counts.retired += 1;
        // In the section that lowers `live`: a wait that starts later finds the pool ended by itself.
        self.set_if_ended(effects);
        // After a release the wait for the end joins all threads.
        let before = if self.open {
            self.ending.take_gone()
        } else {
            Vec::new()
        };
        self.ending.enter(thread.take());
        Exit::Gone(before)
    }

    /// Counts joined threads out.
    pub(crate) fn joined(&mut self, threads: usize, effects: &mut Effects<J>) {
        self.ending.leave(threads, effects.wakes());
    }

    /// Step R3: wakes the waits for the end if the pool has ended.
    pub(crate) fn set_if_ended(&mut self, effects: &mut Effects<J>) {
        if self.view().ended() {
            effects.set_all(&mut self.on_end);
        }
    }

    /// Step N5: counts the outcome of a thread start. A new worker searches, or runs its start hook.
    pub(crate) fn started(&mut self, success: bool, effects: &mut Effects<J>) {
        // In the same section as the counts, so that no other start is reserved for the same tasks in between.
        self.starting = false;
        if success {
            self.live += 1;
            if self.hooked {
                self.entering += 1;
            } else {
                self.searching += 1;
            }
            // The worker looks at the queue as soon as the lock is free, so the starter's task notifies nobody else.
            self.spoken_for = true;
            // With one more worker than before, a core worker that parked without a timeout may be too many.
            self.time_core_workers(effects);
            self.counts.started += 1;
            self.counts.peak_live = self.counts.peak_live.max(self.live);
            self.show_size();
        } else {
            self.counts.start_failures += 1;
        }
    }

    /// Reserves another start, for tasks that were queued during one and notified no worker, if the new workers
    /// run a hook first and are fewer than the tasks.
    pub(crate) fn reserve_another(&mut self) -> bool {
        let on_their_way = self.searching + self.entering;
        // Workers without a hook look at the queue at once, and notify the next one themselves.
        let another = self.hooked
            && self.queue.len() > on_their_way
            && self.view().wake_policy() == Notify::Start;
        // Reserved in the section that counts the last one, so that no submitter starts a second one for the same task.
        self.starting |= another;
        another
    }
}

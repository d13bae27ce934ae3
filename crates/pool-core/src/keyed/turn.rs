//! A lane's turn: a task of the pool that runs the lane's tasks in order. With a limit above one, a
//! lane has several turns.
//!
//! `keyed.rs` opens lanes; `sched/state.rs` accounts for their room.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::Waker;

use sync_shim::MutexGuard;

use crate::foreign::{drop_quietly, wake};
use crate::keyed::Shared;
use crate::keyed::lanes::{LaneId, Lanes};
use crate::sched::effects::Effects;
use crate::sched::load::Outcome;
use crate::sched::state::{Next, State};
use crate::task::erased::{Task, Work};
use crate::task::run::{TaskContext, TaskResult, Unrun};

/// Number of tasks that a turn runs before it yields to other queued tasks. One in models, so that
/// a turn yields while tasks wait in its lane.
const TURN: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// The turn of an open lane, and the task it runs first.
pub(super) struct Turn<K: Eq + Send + 'static, W> {
    pub(super) shared: Arc<Shared<K>>,
    pub(super) lane: LaneId,
    pub(super) first: W,
}

/// Tasks that a turn carries. With a limit of one there is at least one, because such a turn has
/// been queued before. With a higher limit there are none, and the turn takes the lane's first task
/// when it runs.
struct Taken(VecDeque<Task>);

impl<K: Eq + Send + 'static> Shared<K> {
    /// Continues with the lane's next tasks after one has ended.
    fn go_on(
        self: Arc<Self>,
        lane: LaneId,
        mut ended: TaskResult,
        mut taken: VecDeque<Task>,
        context: &TaskContext,
    ) -> TaskResult {
        let core = &self.core;
        for done in 1.. {
            settle(&mut ended);
            if taken.is_empty() && !self.refill(lane, &mut taken) {
                return ended;
            }
            // Yields after `TURN` tasks, so that a busy key does not starve other queued tasks.
            let yields = usize::is_multiple_of(done, TURN);
            // Resolving with user code may be slow: the lane's tasks must not wait for it here.
            if ended.runs_user_code || core.state.pass_on(ended.outcome, yields).is_err() {
                return self.yield_turn(lane, taken, ended);
            }
            // Only now may the handle resolve: room and figures must show the end first, because
            // its waiter may look at them.
            let waker = ended
                .resolve
                .and_then(|handle| handle.resolve_and_take_waker());
            if let Some(waker) = waker {
                return self.put_off(lane, taken, waker);
            }
            ended = Task::run(ManuallyDrop::new(self.next(lane, &mut taken)), context);
        }
        ended
    }

    /// Step K3: takes all tasks waiting in the lane, or closes the lane if there are none.
    ///
    /// With a limit above one (K3c) it takes none yet: the turn stays empty, and takes the lane's
    /// first task when it runs. If all waiting tasks belong to other turns, this turn leaves the
    /// lane.
    #[inline]
    fn refill(&self, lane: LaneId, taken: &mut VecDeque<Task>) -> bool {
        let mut lanes = self.shard(lane.hash()).lock();
        if lanes.limit() > 1 {
            return claim(lanes, lane);
        }
        let closed = lanes.take_or_close(lane, taken);
        drop(lanes);
        // USER CODE: the drop of a closed lane's key.
        drop_quietly(closed);
        !taken.is_empty()
    }

    /// The turn's next task: the first one it carries, or else step K3d.
    #[inline]
    fn next(&self, lane: LaneId, taken: &mut VecDeque<Task>) -> Task {
        match taken.pop_front() {
            Some(next) => next,
            None => self.next_in_lane(lane),
        }
    }

    #[cold]
    fn next_in_lane(&self, lane: LaneId) -> Task {
        let next = self.shard(lane.hash()).lock().next_of(lane);
        next.expect("a turn goes on with a task")
    }

    /// Creates a turn of the lane for the queue, with the tasks that it carries, if any.
    pub(super) fn queued_turn(self: Arc<Self>, lane: LaneId, taken: VecDeque<Task>) -> Task {
        Task::new(Turn {
            shared: self,
            lane,
            first: Taken(taken),
        })
    }

    /// Step K4: yields to other queued tasks. The ended task is counted and its handle resolves;
    /// the turn goes to the end of the queue.
    #[cold]
    fn yield_turn(
        self: Arc<Self>,
        lane: LaneId,
        taken: VecDeque<Task>,
        ended: TaskResult,
    ) -> TaskResult {
        let core = Arc::clone(&self.core);
        let mut effects = Effects::new();
        let job = self.queued_turn(lane, taken);
        core.state
            .section(|state| state.pass_to_queue(ended.outcome, job, &mut effects));
        core.wake_threads(&mut effects);
        // Only now may the handle resolve, because room and figures must show the end first. It
        // resolves before `run`, which may be slow, unless resolving runs user code, which may be
        // slow itself.
        let (first, last) = if ended.runs_user_code {
            (None, ended.resolve)
        } else {
            (ended.resolve, None)
        };
        let waker = first.and_then(|handle| handle.resolve_and_take_waker());
        core.run(&mut effects);
        waker.into_iter().for_each(wake);
        if let Some(handle) = last {
            handle.resolve();
        }
        TaskResult::without_handle(Outcome::PassedOn)
    }

    /// As step W9: puts the turn back before it calls a waker that was registered late, so that no
    /// task waits for this worker meanwhile.
    #[cold]
    fn put_off(self: Arc<Self>, lane: LaneId, taken: VecDeque<Task>, waker: Waker) -> TaskResult {
        let core = Arc::clone(&self.core);
        let mut effects = Effects::new();
        let job = self.queued_turn(lane, taken);
        core.state
            .section(|state| state.put_off(Next::Run(job), &mut effects));
        core.run(&mut effects);
        wake(waker);
        TaskResult::without_handle(Outcome::PassedOn)
    }

    /// Step K5: discards a turn. Closes the lane, unless it has other turns, and drops the tasks
    /// that this turn carries (`waiting`) or that wait in the lane and do not belong to other
    /// turns.
    #[cold]
    fn discard(
        &self,
        lane: LaneId,
        mut first: TaskResult,
        mut waiting: VecDeque<Task>,
    ) -> TaskResult {
        settle(&mut first);
        let left = self.shard(lane.hash()).lock().abandon(lane);
        let Some((key, mut others)) = left else {
            return first;
        };
        waiting.append(&mut others);
        let core = &self.core;
        if !waiting.is_empty() {
            // Fails for a task that its handle has cancelled before; `settle` counts it as
            // cancelled.
            for job in &waiting {
                job.seize(Unrun::Released);
            }
            core.section(|state, effects| state.discard_reserved(waiting.len(), effects));
            for job in waiting {
                let mut result = job.release();
                settle(&mut result);
                core.section(|state, effects| state.disposed(result.outcome, effects));
                if let Some(handle) = result.resolve {
                    handle.resolve();
                }
            }
            core.state.section(State::end_disposal);
        }
        // USER CODE: the drop of the key, after all handles have resolved: it may be slow.
        drop_quietly(key);
        first
    }
}

/// Step K3c, and the drop of the key if that closed the lane.
#[cold]
fn claim<K>(mut lanes: MutexGuard<'_, Lanes<K, Task>>, lane: LaneId) -> bool {
    let (goes_on, closed) = lanes.claim_or_leave(lane);
    drop(lanes);
    // USER CODE: the drop of a closed lane's key. It must not run under the lock.
    drop_quietly(closed);
    goes_on
}

/// Counts a task that its handle took back as cancelled: unlike other such tasks it kept its place.
#[inline]
fn settle(result: &mut TaskResult) {
    if result.outcome == Outcome::Withdrawn {
        result.outcome = Outcome::Cancelled;
    }
}

impl<K: Eq + Send + 'static, W: Work> Work for Turn<K, W> {
    fn run(self, context: &TaskContext) -> TaskResult {
        let ended = self.first.run(context);
        let taken = VecDeque::new();
        self.shared.go_on(self.lane, ended, taken, context)
    }

    fn release(self) -> TaskResult {
        let first = self.first.release();
        self.shared.discard(self.lane, first, VecDeque::new())
    }

    /// Returns `true` always: a task that its handle took back keeps its room until its turn.
    fn seize(&self, why: Unrun) -> bool {
        self.first.seize(why);
        true
    }
}

impl<K: Eq + Send + 'static> Work for Turn<K, Taken> {
    fn run(mut self, context: &TaskContext) -> TaskResult {
        // A `release_now` may have run while the turn was neither queued nor running.
        if self.shared.core.state.lock().discards {
            return self.release();
        }
        let first = self.shared.next(self.lane, &mut self.first.0);
        let ended = Task::run(ManuallyDrop::new(first), context);
        self.shared.go_on(self.lane, ended, self.first.0, context)
    }

    fn release(mut self) -> TaskResult {
        let first = self.shared.next(self.lane, &mut self.first.0);
        first.seize(Unrun::Released);
        self.shared
            .discard(self.lane, first.release(), self.first.0)
    }
}

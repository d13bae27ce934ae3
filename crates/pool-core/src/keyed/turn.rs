//! A lane's turn: a task of the pool that runs the lane's tasks, each in its place. With a limit above
//! one a lane has several.
//!
//! Not for: who opens a lane (`keyed.rs`), nor which room is whose (`sched/state/permits.rs`).

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::Waker;

use sync_shim::MutexGuard;

use crate::foreign::{drop_quietly, wake};
use crate::keyed::Shared;
use crate::keyed::lanes::{LaneId, Lanes};
use crate::sched::effects::Effects;
use crate::sched::state::{Next, State};
use crate::task::erased::{Task, Work};
use crate::task::run::{Outcome, TaskContext, TaskResult, Unrun};

/// Tasks of a turn while other tasks are queued. In a model one, so that it ends while tasks wait in
/// the lane.
const TURN: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// The turn of an open lane, with the task that is first.
pub(super) struct Turn<K: Eq + Send + 'static, W> {
    pub(super) shared: Arc<Shared<K>>,
    pub(super) lane: LaneId,
    pub(super) first: W,
}

/// What a turn has taken out of its lane. With a limit of one at least one task: the turn has been in the
/// queue before. Else none: the turn takes the lane's first task when it comes to run.
struct Taken(VecDeque<Task>);

impl<K: Eq + Send + 'static> Shared<K> {
    /// Runs what comes after a task of the lane that has ended.
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
            let yields = usize::is_multiple_of(done, TURN);
            if ended.runs_user_code || core.state.pass_on(ended.outcome, yields).is_err() {
                return self.yield_turn(lane, taken, ended);
            }
            // Room and figures show the end: now the handle may.
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

    /// Step K3: takes all that waits in the lane. Where nothing does, the lane is closed.
    ///
    /// With a limit above one it takes none of them yet (K3c): the turn is empty, and takes the first
    /// that waits when it comes to run. Where all that wait are for other turns, it leaves the lane.
    #[inline]
    fn refill(&self, lane: LaneId, taken: &mut VecDeque<Task>) -> bool {
        let mut lanes = self.shard(lane.hash()).lock();
        if lanes.limit() > 1 {
            return claim(lanes, lane);
        }
        let closed = lanes.take_or_close(lane, taken);
        drop(lanes);
        // USER CODE: the drop of a key whose lane has ended.
        drop_quietly(closed);
        !taken.is_empty()
    }

    /// The task that a turn goes on to: the first that it has taken, or step K3d.
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

    /// A turn of the lane, to be put into the queue: what it has taken, or empty.
    pub(super) fn again(self: Arc<Self>, lane: LaneId, taken: VecDeque<Task>) -> Task {
        Task::new(Turn {
            shared: self,
            lane,
            first: Taken(taken),
        })
    }

    /// Step K4: others come first. The task that has ended is counted and shown to its handle; the
    /// lane's next one waits for the turn in the queue.
    #[cold]
    fn yield_turn(
        self: Arc<Self>,
        lane: LaneId,
        taken: VecDeque<Task>,
        ended: TaskResult,
    ) -> TaskResult {
        let core = Arc::clone(&self.core);
        let mut effects = Effects::new();
        let job = self.again(lane, taken);
        core.state
            .section(|state| state.pass_to_queue(ended.outcome, job, &mut effects));
        core.wake_threads(&mut effects);
        // Room and figures show the end: now the handle may. Before what may take its time, unless
        // it may itself.
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

    /// As step W9: a waker that came late is called while no task waits for this worker.
    #[cold]
    fn put_off(self: Arc<Self>, lane: LaneId, taken: VecDeque<Task>, waker: Waker) -> TaskResult {
        let core = Arc::clone(&self.core);
        let mut effects = Effects::new();
        let job = self.again(lane, taken);
        core.state
            .section(|state| state.put_off(Next::Run(job), &mut effects));
        core.run(&mut effects);
        wake(waker);
        TaskResult::without_handle(Outcome::PassedOn)
    }

    /// Step K5: a turn of the lane is not run. Closes the lane, unless it has other turns, and drops
    /// what this turn has taken (`waiting`) and what waits there, but for other turns.
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
            // The handle of each may still come first.
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
        drop_quietly(key);
        first
    }
}

/// Step K3c.
#[cold]
fn claim<K>(mut lanes: MutexGuard<'_, Lanes<K, Task>>, lane: LaneId) -> bool {
    let (goes_on, closed) = lanes.claim_or_leave(lane);
    drop(lanes);
    drop_quietly(closed);
    goes_on
}

/// A task that its handle took back has kept its place: it ends now.
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

    /// A task that its handle took back holds its room until its turn.
    fn seize(&self, why: Unrun) -> bool {
        self.first.seize(why);
        true
    }
}

impl<K: Eq + Send + 'static> Work for Turn<K, Taken> {
    fn run(mut self, context: &TaskContext) -> TaskResult {
        // A `release_now` may have come while the turn was between two places.
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

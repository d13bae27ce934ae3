//! A lane's turn: the one task of the pool that runs the lane's tasks, each in its place.
//!
//! Not for: who opens a lane (`keyed.rs`), nor which room is whose (`sched/state/permits.rs`).

use std::sync::Arc;
use std::task::Waker;

use crate::foreign::{drop_quietly, wake};
use crate::keyed::Shared;
use crate::sched::effects::Effects;
use crate::sched::state::{Next, State};
use crate::task::erased::{Task, Work};
use crate::task::run::{Outcome, TaskContext, TaskResult, Unrun};

/// Tasks of a turn while other tasks are queued. In a model one, so that it ends while tasks wait in
/// the lane.
const TURN: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// Which lane of which set it is.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    pub(super) shard: u32,
    pub(super) slot: u32,
}

/// The turn of an open lane, with the task that is first.
pub(super) struct Turn<K: Eq + Send + 'static, W> {
    pub(super) shared: Arc<Shared<K>>,
    pub(super) lane: Lane,
    pub(super) first: W,
}

/// In the place of a turn's first task: that waits in the lane, for the turn has been in the queue
/// before.
struct InLane;

impl<K: Eq + Send + 'static> Shared<K> {
    /// Runs what comes after a task of the lane that has ended.
    fn go_on(
        self: Arc<Self>,
        lane: Lane,
        mut ended: TaskResult,
        context: &TaskContext,
    ) -> TaskResult {
        let core = &self.core;
        for done in 1.. {
            settle(&mut ended);
            let Some(next) = self.next(lane) else {
                return ended;
            };
            let yields = usize::is_multiple_of(done, TURN);
            if ended.runs_user_code || core.state.pass_on(ended.outcome, yields).is_err() {
                return self.yield_turn(lane, next, ended);
            }
            // Room and figures show the end: now the handle may.
            let waker = ended
                .resolve
                .and_then(|handle| handle.resolve_and_take_waker());
            if let Some(waker) = waker {
                return self.put_off(lane, next, waker);
            }
            ended = next.run(context);
        }
        ended
    }

    /// Step K3: the next task; or the lane is closed.
    #[inline]
    fn next(&self, lane: Lane) -> Option<Task> {
        let mut lanes = self.shard(lane.shard).lock();
        if let Some(next) = lanes.pop(lane.slot) {
            return Some(next);
        }
        let closed = lanes.close(lane.slot);
        drop(lanes);
        drop_quietly(closed); // The key is the user's, and the lock is free.
        None
    }

    /// The lane's task that the turn in the queue is for.
    fn first(&self, lane: Lane) -> Task {
        let first = self.shard(lane.shard).lock().pop(lane.slot);
        first.expect("a task waits in the lane of a turn that was put back")
    }

    /// Puts the next task back, to be the first of the lane's turn.
    fn again(self: Arc<Self>, lane: Lane, next: Task) -> Task {
        self.shard(lane.shard).lock().unpop(lane.slot, next);
        Task::new(Turn {
            shared: self,
            lane,
            first: InLane,
        })
    }

    /// Step K4: others come first. The task that has ended is counted and shown to its handle; the
    /// lane's next one waits for the turn in the queue.
    #[cold]
    fn yield_turn(self: Arc<Self>, lane: Lane, next: Task, ended: TaskResult) -> TaskResult {
        let core = Arc::clone(&self.core);
        let mut effects = Effects::new();
        let job = self.again(lane, next);
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
    fn put_off(self: Arc<Self>, lane: Lane, next: Task, waker: Waker) -> TaskResult {
        let core = Arc::clone(&self.core);
        let mut effects = Effects::new();
        let job = self.again(lane, next);
        core.state
            .section(|state| state.put_off(Next::Run(job), &mut effects));
        core.run(&mut effects);
        wake(waker);
        TaskResult::without_handle(Outcome::PassedOn)
    }

    /// Step K5: the lane's turn is not run. Closes the lane, and drops what waits there.
    #[cold]
    fn discard(&self, lane: Lane, mut first: TaskResult) -> TaskResult {
        settle(&mut first);
        let closed = self.shard(lane.shard).lock().close(lane.slot);
        let Some((key, waiting)) = closed else {
            return first;
        };
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
        self.shared.go_on(self.lane, ended, context)
    }

    fn release(self) -> TaskResult {
        let first = self.first.release();
        self.shared.discard(self.lane, first)
    }

    /// A task that its handle took back holds its room until its turn.
    fn seize(&self, why: Unrun) -> bool {
        self.first.seize(why);
        true
    }
}

impl<K: Eq + Send + 'static> Work for Turn<K, InLane> {
    fn run(self, context: &TaskContext) -> TaskResult {
        let (core, lane) = (&self.shared.core, self.lane);
        // A `release_now` may have come while the turn was between two places.
        if core.state.lock().discards {
            return self.release();
        }
        let ended = self.shared.first(lane).run(context);
        self.shared.go_on(lane, ended, context)
    }

    fn release(self) -> TaskResult {
        let first = self.shared.first(self.lane);
        first.seize(Unrun::Released);
        self.shared.discard(self.lane, first.release())
    }
}

//! A lane's turn: the one task of the pool that runs the lane's tasks, each in its place.
//!
//! Not for: who opens a lane (`keyed.rs`), nor which room is whose (`sched/state/permits.rs`).

use std::sync::Arc;

use crate::foreign::{drop_quietly, wake};
use crate::keyed::Shared;
use crate::runner::Runner;
use crate::sched::effects::Effects;
use crate::sched::state::Next;
use crate::task::erased::{Task, Work};
use crate::task::run::{Outcome, TaskContext, TaskResult};

/// Tasks of a turn while other tasks are queued. In a model one, so that it ends while tasks wait in
/// the lane.
const TURN: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// Which lane of which set it is.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    pub(super) shard: usize,
    pub(super) slot: u32,
}

/// The turn of an open lane, in which a task waits.
pub(super) struct Turn<K: Eq + Send + 'static> {
    shared: Arc<Shared<K>>,
    lane: Lane,
    /// It has been in the queue before: there may have been a `release_now`, which did not find it.
    again: bool,
}

impl<K: Eq + Send + 'static> Turn<K> {
    pub(super) fn new(shared: Arc<Shared<K>>, lane: Lane) -> Self {
        Self {
            shared,
            lane,
            again: false,
        }
    }

    /// The lane's first task, which the turn's place in flight is for.
    fn first(&self) -> Task {
        let lanes = &mut *self.shared.shard(self.lane.shard).lock();
        let first = lanes.pop(self.lane.slot);
        first.expect("a task waits in the lane of each turn that has not begun")
    }

    /// Step K3: the next task; or the lane is closed.
    #[inline]
    fn next(&self) -> Option<Task> {
        let mut lanes = self.shared.shard(self.lane.shard).lock();
        if let Some(next) = lanes.pop(self.lane.slot) {
            return Some(next);
        }
        let closed = lanes.close(self.lane.slot);
        drop(lanes);
        drop_quietly(closed); // The key is the user's, and the lock is free.
        None
    }

    fn again(self) -> Task {
        Task::new(Self {
            again: true,
            ..self
        })
    }

    /// Steps K4: others come first. The task that has ended is counted and shown to its handle; the
    /// lane's next one waits for the turn in the queue.
    #[cold]
    fn yield_turn(self, next: Task, ended: TaskResult) -> TaskResult {
        let core = Arc::clone(&self.shared.core);
        let lane = self.lane;
        self.shared.shard(lane.shard).lock().unpop(lane.slot, next);
        let mut effects = Effects::new();
        let job = self.again();
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
        last.into_iter().for_each(|handle| handle.resolve());
        TaskResult::without_handle(Outcome::PassedOn)
    }

    /// As step W9: a waker that came late is called while no task waits for this worker.
    #[cold]
    fn put_off(self, next: Task, waker: std::task::Waker) -> TaskResult {
        let core = Arc::clone(&self.shared.core);
        let lane = self.lane;
        self.shared.shard(lane.shard).lock().unpop(lane.slot, next);
        let mut effects = Effects::new();
        let job = self.again();
        core.state
            .section(|state| state.put_off(Next::Run(job), &mut effects));
        core.run(&mut effects);
        wake(waker);
        TaskResult::without_handle(Outcome::PassedOn)
    }

    /// Step K5: closes the lane, and drops what waits there.
    fn discard(&self) {
        let closed = self.shared.shard(self.lane.shard).lock().close(self.lane.slot);
        let Some((key, waiting)) = closed else { return };
        let core = &self.shared.core;
        if !waiting.is_empty() {
            // The handle of each may still come first.
            waiting.iter().for_each(|job| _ = job.seize());
            core.section(|state, effects| state.discard_reserved(waiting.len(), effects));
            for job in waiting {
                let (mut result, _) = core.runner.release(job);
                settle(&mut result);
                core.section(|state, effects| state.disposed(result.outcome, effects));
                result.resolve.into_iter().for_each(|handle| handle.resolve());
            }
            core.state.section(crate::sched::state::State::end_disposal);
        }
        drop_quietly(key);
    }
}

/// A task that its handle took back has kept its place: it ends now.
#[inline]
fn settle(result: &mut TaskResult) {
    if result.outcome == Outcome::Withdrawn {
        result.outcome = Outcome::Cancelled;
    }
}

impl<K: Eq + Send + 'static> Work for Turn<K> {
    fn run(self, context: &TaskContext) -> TaskResult {
        let core = &self.shared.core;
        if self.again && core.state.lock().discards {
            return self.release();
        }
        let mut job = self.first();
        let mut done = 0;
        loop {
            let mut result = core.runner.run(job, context);
            settle(&mut result);
            let Some(next) = self.next() else {
                return result;
            };
            done += 1;
            let yields = done % TURN == 0;
            if result.runs_user_code || core.state.pass_on(result.outcome, yields).is_err() {
                return self.yield_turn(next, result);
            }
            // Room and figures show the end: now the handle may.
            let waker = result
                .resolve
                .and_then(|handle| handle.resolve_and_take_waker());
            if let Some(waker) = waker {
                return self.put_off(next, waker);
            }
            job = next;
        }
    }

    fn release(self) -> TaskResult {
        let first = self.first();
        first.seize();
        let (mut result, _) = self.shared.core.runner.release(first);
        settle(&mut result);
        self.discard();
        result
    }
}

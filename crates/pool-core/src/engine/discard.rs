//! Discards tasks for which a full pool has no room.
//!
//! The call's [`OnFull`](crate::OnFull) and `sched/decide.rs` say when.
//!
//! # Invariant
//! A discarded task has been accepted. The section that found the pool full removes it and claims it from its handle.
//! It is unfinished until the hook was called and its captures are dropped, with no lock held; then it is counted and
//! its handle resolved.

use std::sync::Arc;

use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::foreign::drop_quietly;
use crate::sched::state::State;
use crate::task::discarded::DiscardedTask;
use crate::task::handle::PoolRef;
use crate::task::run::{Outcome, TaskResult, Unrun};

/// Tasks that a section removed in order to discard them.
pub(crate) struct Discards<J> {
    task: J,
    /// Tombstones that preceded the task in the queue.
    tombstones: Vec<J>,
}

impl<R: Runner> Core<R> {
    /// Queues the job in place of the oldest discardable task. Discards the job itself if there is none.
    pub(crate) fn replace_oldest(
        &self,
        state: &mut State<R::Job>,
        job: R::Job,
    ) -> Discards<R::Job> {
        let (oldest, tombstones) = state
            .take_oldest(&|job| self.runner.name_of(job).is_some(), &|job| {
                self.runner.seize(job, Unrun::Discarded)
            });
        match oldest {
            Some(task) => {
                state.replace(job);
                Discards { task, tombstones }
            }
            // The tombstones have left the queue in any case, so they must be dropped with the new task.
            None => Discards {
                tombstones,
                ..self.discard_newest(state, job)
            },
        }
    }

    /// Accepts the job and discards it.
    pub(crate) fn discard_newest(
        &self,
        state: &mut State<R::Job>,
        task: R::Job,
    ) -> Discards<R::Job> {
        // Nobody else can have claimed it: its handle does not exist before the call returns. The claim tells `release` why.
        self.runner.seize(&task, Unrun::Discarded);
        state.begin_disposal();
        Discards {
            task,
            tombstones: Vec::new(),
        }
    }

    /// Ends the removed tasks, with no lock held.
    pub(crate) fn discard(self: &Arc<Self>, discards: Discards<R::Job>) {
        let Discards { task, tombstones } = discards;
        // Nested, because a hook or a destructor that submits to its own full pool discards again. Without the
        // nesting limit that could go on until the stack overflows.
        let mut task = Some((task, tombstones));
        let mut result = None;
        self.nested(&mut || {
            let (task, tombstones) = task.take().expect("it is discarded once");
            result = self.end_discarded(task, tombstones).resolve;
            Outcome::Discarded
        });
        self.section(|state, effects| {
            state.disposed(Outcome::Discarded, effects);
            state.end_disposal();
        });
        // After the section that counts it: a caller who sees the handle resolved finds it in the figures.
        if let Some(handle) = result {
            handle.resolve();
        }
    }

    /// Calls the hook, then drops the task's captures.
    fn end_discarded(&self, task: R::Job, tombstones: Vec<R::Job>) -> TaskResult {
        if let Some(hook) = &self.config.discard_hook {
            let discarded = DiscardedTask {
                pool: &self.context.name,
                task: self.runner.name_of(&task).unwrap_or_default(),
                name: self.runner.given_name_of(&task),
            };
            // USER CODE: the discard hook, on the discarding thread. The task is unfinished until it returns, so its waits for
            // the pool return `WouldDeadlock`.
            self.context.call_hook(|| hook(&discarded));
        }
        drop_quietly(tombstones); // They may be the last references to their tasks, whose drop must not unwind.
        let (result, item) = self.runner.release(task);
        drop_quietly(item);
        result
    }
}

//! Discarding: a full pool gives up a task for want of room.
//!
//! Not for: when it does so, which is a call's [`OnFull`](crate::OnFull), decided in
//! `sched/decide.rs`.
//!
//! # What always holds
//! A discarded task has been accepted. It is taken out, and its handle's claim decided, in the
//! section that found the pool full; it is unfinished until the hook was called and its captures
//! are dropped, with no lock held; then it is counted, and its handle resolved.

use std::sync::Arc;

use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::foreign::drop_quietly;
use crate::sched::state::State;
use crate::task::discarded::DiscardedTask;
use crate::task::handle::PoolRef;
use crate::task::run::{Outcome, TaskResult, Unrun};

/// What a section took out to be discarded.
pub(crate) struct Discards<J> {
    task: J,
    /// Entries that lay before it.
    tombstones: Vec<J>,
}

impl<R: Runner> Core<R> {
    /// A full pool takes a job, and gives up its oldest; or this one, if it has none.
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
            None => Discards {
                tombstones,
                ..self.discard_newest(state, job)
            },
        }
    }

    /// A full pool takes a job, and gives it up.
    pub(crate) fn discard_newest(
        &self,
        state: &mut State<R::Job>,
        task: R::Job,
    ) -> Discards<R::Job> {
        self.runner.seize(&task, Unrun::Discarded);
        state.begin_disposal();
        Discards {
            task,
            tombstones: Vec::new(),
        }
    }

    /// Ends what was taken out, with no lock held.
    pub(crate) fn discard(self: &Arc<Self>, discards: Discards<R::Job>) {
        let Discards { task, tombstones } = discards;
        // A hook or a destructor that submits to its own full pool discards again, one level deeper
        // in this thread's nesting, down to the limit.
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
        // The figures show the end: now the handle may.
        if let Some(handle) = result {
            handle.resolve();
        }
    }

    /// Calls the hook, and drops what the task captured.
    fn end_discarded(&self, task: R::Job, tombstones: Vec<R::Job>) -> TaskResult {
        if let Some(hook) = &self.config.discard_hook {
            let discarded = DiscardedTask {
                pool: &self.context.name,
                task: self.runner.name_of(&task).unwrap_or_default(),
                name: self.runner.given_name_of(&task),
            };
            // USER CODE: the discard hook, by the thread that discards. The task is unfinished until it ends: its own waits return `WouldDeadlock`.
            self.context.call_hook(|| hook(&discarded));
        }
        drop_quietly(tombstones); // Perhaps the last references to their tasks.
        let (result, item) = self.runner.release(task);
        drop_quietly(item);
        result
    }
}

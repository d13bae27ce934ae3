//! Discarding: a full pool gives up a task for want of room.
//!
//! Not for: when it does so, which is a call's [`OnFull`](crate::OnFull), decided in
//! `sched/decide.rs`.
//!
//! # What always holds
//! A discarded task has been accepted. It is taken out, and its handle's claim decided, in the
//! section that found the pool full; it is unfinished until the hook was called and its captures
//! are dropped, with no lock held; then it is counted, and its handle resolved.

use std::fmt;
use std::sync::Arc;

use crate::core::Core;
use crate::foreign::drop_quietly;
use crate::runner::Runner;
use crate::sched::state::State;
use crate::task::run::{Outcome, Unrun};

pub(crate) type DiscardHook = dyn Fn(&DiscardedTask<'_>) + Send + Sync;

/// A task that a full pool discards, as the [discard hook](crate::Builder::discard_hook) sees it.
///
/// Its captures are dropped after the hook has returned, on the same thread. Then it is counted in
/// [`Stats::discarded`](crate::Stats::discarded), and its handle ends with
/// [`JoinError::Discarded`](crate::JoinError::Discarded).
pub struct DiscardedTask<'a> {
    pool: &'a str,
    task: &'static str,
    name: Option<&'a str>,
}

impl DiscardedTask<'_> {
    /// The pool's name.
    pub fn pool(&self) -> &str {
        self.pool
    }

    /// The type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.task
    }

    /// The task's [name](crate::TaskBuilder::name), if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.name
    }
}

impl fmt::Debug for DiscardedTask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscardedTask")
            .field("pool", &self.pool)
            .field("task", &self.task)
            .field("name", &self.name)
            .finish()
    }
}

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
        if let Some(hook) = &self.config.discard_hook {
            let discarded = DiscardedTask {
                pool: &self.context.name,
                task: self.runner.name_of(&task).unwrap_or_default(),
                name: self.runner.given_name_of(&task),
            };
            self.context.call_hook(|| hook(&discarded));
        }
        drop_quietly(tombstones); // Perhaps the last references to their tasks.
        let (result, item) = self.runner.release(task);
        drop_quietly(item);
        self.section(|state, effects| {
            state.disposed(Outcome::Discarded, effects);
            state.end_disposal();
        });
        // The figures show the end: now the handle may.
        if let Some(handle) = result.resolve {
            handle.resolve();
        }
    }
}

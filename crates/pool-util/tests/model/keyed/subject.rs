//! The pool under test with its keys: every submitting call that a program uses.

use std::future::Future;
use std::pin::Pin;

use pool_core::{JoinHandle, Pool, SubmitError};
use pool_util::Keyed;

use crate::twin::job::{Job, Out};

use super::program::Key;

pub(super) type Handle = JoinHandle<Out>;
/// With a handle, if the call was a spawn.
pub(super) type Answer = Result<Option<Handle>, Refused>;
pub(super) type Submission = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The reason of a refusal. The task was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Released,
}

#[derive(Clone)]
pub(super) struct Subject {
    pub(super) pool: Pool,
    pub(super) keyed: Keyed<u8>,
}

impl Subject {
    pub(super) fn try_hand(&self, job: Job, key: Key, spawn: bool) -> Answer {
        match (key, spawn) {
            (None, false) => answer(self.pool.try_submit(move || job.run()).map(|()| None)),
            (None, true) => answer(self.pool.try_spawn(move || job.run()).map(Some)),
            (Some(key), false) => answer(self.keyed.try_submit(key, || job.run()).map(|()| None)),
            (Some(key), true) => answer(self.keyed.try_spawn(key, || job.run()).map(Some)),
        }
    }

    /// By a call that may wait. A keyed call on a worker of the pool does not wait.
    pub(super) fn hand(&self, job: Job, key: u8, spawn: bool) -> Answer {
        if spawn {
            answer(self.keyed.spawn(key, || job.run()).map(Some))
        } else {
            answer(self.keyed.submit(key, || job.run()).map(|()| None))
        }
    }

    pub(super) fn hand_async(&self, job: Job, key: Key, spawn: bool) -> Submission {
        let task = move || job.run();
        match (key, spawn) {
            (None, false) => {
                let submitted = self.pool.submit_async(task);
                Box::pin(async { answer(submitted.await.map(|()| None)) })
            }
            (None, true) => {
                let spawned = self.pool.spawn_async(task);
                Box::pin(async { answer(spawned.await.map(Some)) })
            }
            (Some(key), false) => {
                let submitted = self.keyed.submit_async(key, task);
                Box::pin(async { answer(submitted.await.map(|()| None)) })
            }
            (Some(key), true) => {
                let spawned = self.keyed.spawn_async(key, task);
                Box::pin(async { answer(spawned.await.map(Some)) })
            }
        }
    }
}

fn answer<T>(called: Result<Option<Handle>, SubmitError<T>>) -> Answer {
    called.map_err(|refused| match refused {
        SubmitError::Full(_) => Refused::Full,
        SubmitError::Released(_) => Refused::Released,
        other => panic!("no program leads to {:?}", other.without_task()),
    })
}

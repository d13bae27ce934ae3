//! Options of a task, and their effect on its wait for room. Their effect on the accepted task is that of its
//! [record](crate::task::record).

use std::borrow::Cow;
use std::time::Instant;

use crate::config::OnFull;
use crate::sched::ready::Priority;
use crate::task::cancel::{CancelToken, Cancelled};

/// The options of a task.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TaskOptions {
    /// Name of the task in reports.
    pub name: Option<Cow<'static, str>>,
    /// Tokens, each of which cancels the task.
    pub tokens: Vec<CancelToken>,
    /// A task that has not been started by then is not run.
    pub start_before: Option<Instant>,
    /// Priority among the queued tasks.
    pub priority: Priority,
}

/// Limits of a task's wait for room in addition to the call's.
#[derive(Debug)]
pub struct WaitLimits {
    token: Option<CancelToken>,
    /// The time by which the task must be started.
    start_before: Option<Instant>,
}

impl WaitLimits {
    pub(crate) fn new(token: Option<CancelToken>, start_before: Option<Instant>) -> Self {
        Self {
            token,
            start_before,
        }
    }

    /// Returns the deadline of a wait for room, for a call with the policy `on_full`.
    pub fn deadline(limits: Option<&Self>, on_full: OnFull) -> Option<Instant> {
        let of_task = limits.and_then(|limits| limits.start_before);
        on_full.deadline().into_iter().chain(of_task).min()
    }

    /// Returns the token that ends the wait.
    pub fn token(limits: Option<&Self>) -> Option<&CancelToken> {
        limits.and_then(|limits| limits.token.as_ref())
    }

    /// Returns the token's future, for an asynchronous wait.
    pub(crate) fn cancelled(self) -> Option<Cancelled> {
        self.token.map(|token| token.cancelled())
    }
}

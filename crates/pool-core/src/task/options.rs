//! What a task may be given beside its closure, and what that means for its wait for room.
//!
//! Not for: what it means for the accepted task. That is its [record](crate::task::record)'s.

use std::borrow::Cow;
use std::time::Instant;

use crate::config::OnFull;
use crate::sched::ready::Priority;
use crate::task::cancel::{CancelToken, Cancelled};

/// What a task is given beside its closure or argument.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TaskOptions {
    /// What reports call it.
    pub name: Option<Cow<'static, str>>,
    /// Each of these cancels it.
    pub tokens: Vec<CancelToken>,
    /// If it has not been started by then, it is not run.
    pub start_before: Option<Instant>,
    /// Which queued tasks are started before it.
    pub priority: Priority,
}

/// What ends a task's wait for room beside the call's own limit.
#[derive(Debug)]
pub struct WaitLimits {
    token: Option<CancelToken>,
    /// It is to be started by then.
    start_before: Option<Instant>,
}

impl WaitLimits {
    pub(crate) fn new(token: Option<CancelToken>, start_before: Option<Instant>) -> Self {
        Self {
            token,
            start_before,
        }
    }

    /// When a wait for room is over, of a call that does this at a full pool.
    pub fn deadline(limits: Option<&Self>, on_full: OnFull) -> Option<Instant> {
        let of_task = limits.and_then(|limits| limits.start_before);
        on_full.deadline().into_iter().chain(of_task).min()
    }

    /// What else ends it.
    pub fn token(limits: Option<&Self>) -> Option<&CancelToken> {
        limits.and_then(|limits| limits.token.as_ref())
    }

    /// The same, for a future.
    pub(crate) fn cancelled(self) -> Option<Cancelled> {
        self.token.map(|token| token.cancelled())
    }
}

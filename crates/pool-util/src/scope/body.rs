//! Running a scope's task. Compiled once, for all closures: what is generic hands its closure over as
//! a [`dyn FnMut(Body)`](Body).
//!
//! None of this unwinds, whatever the pool's clock, its hooks and the submitter's span do.

use std::mem;
use std::sync::Arc;

use pool_core::internals::{Recorded, TaskContext};
use pool_core::{JoinError, TaskOutcome};
use sync_shim::foreign::{Payload, discard, guarded};

/// What to do with a task's closure.
pub(super) enum Body {
    Run,
    /// If it was not run.
    Drop,
}

/// How a task has ended.
pub(super) enum Ended {
    Returned,
    Panicked(Payload),
    NotRun(TaskOutcome),
}

impl Ended {
    /// As its handle says it.
    pub(super) fn error(self, context: &TaskContext) -> Option<JoinError> {
        Some(match self {
            Self::Returned => return None,
            Self::Panicked(payload) => context.panicked(payload),
            Self::NotRun(TaskOutcome::Expired) => JoinError::Expired,
            Self::NotRun(_) => JoinError::Cancelled,
        })
    }
}

/// Drops a closure that is not run.
struct Unrun<'a>(&'a mut dyn FnMut(Body));

impl Drop for Unrun<'_> {
    fn drop(&mut self) {
        (self.0)(Body::Drop);
    }
}

/// Runs a task, or drops it if it is not to start any more. A panic of anything that is called is the
/// task's.
pub(super) fn run(
    name: &'static str,
    recorded: Option<Arc<Recorded>>,
    context: &TaskContext,
    body: &mut dyn FnMut(Body),
) -> Ended {
    let Some(recorded) = recorded else {
        let ran = context.execute(name, || body(Body::Run));
        return ran.map_or_else(Ended::Panicked, |()| Ended::Returned);
    };
    match recorded.drop_unrun(name, context, Unrun(body)) {
        Ok(why) => return Ended::NotRun(why),
        Err(unrun) => mem::forget(unrun),
    }
    let ran = recorded.execute(name, context, || body(Body::Run));
    // A subscriber may have panicked before the closure was called.
    let dropped = guarded(|| body(Body::Drop));
    match (ran, dropped) {
        (Ok(()), Ok(())) => Ended::Returned,
        (Err(payload), Ok(())) | (Ok(()), Err(payload)) => Ended::Panicked(payload),
        (Err(first), Err(payload)) => {
            discard(payload);
            Ended::Panicked(first)
        }
    }
}

/// As [`run`], of a task without a handle: what it panicked with.
pub(super) fn run_detached(
    name: &'static str,
    recorded: Option<Arc<Recorded>>,
    context: &TaskContext,
    body: &mut dyn FnMut(Body),
) -> Option<Payload> {
    match run(name, recorded, context, body) {
        Ended::Panicked(payload) => Some(payload),
        Ended::Returned | Ended::NotRun(_) => None,
    }
}

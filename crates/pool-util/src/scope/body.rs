//! Running a scope's task. Compiled once, for all closures: what is generic hands its closure over as
//! a [`dyn FnMut(Body)`](Body).
//!
//! None of this unwinds, whatever the pool's clock, its hooks and the submitter's span do.

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

    /// Something that is a part of the task has ended so. The first panic counts.
    fn and(self, part: Result<(), Payload>) -> Self {
        match (self, part) {
            (ended, Ok(())) => ended,
            (Self::Panicked(first), Err(payload)) => {
                discard(payload);
                Self::Panicked(first)
            }
            (_, Err(payload)) => Self::Panicked(payload),
        }
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
        let ran = guarded(|| context.execute(name, || body(Body::Run)));
        return ran
            .and_then(|ran| ran)
            .map_or_else(Ended::Panicked, |()| Ended::Returned);
    };
    let ran = guarded(|| match recorded.drop_unrun(name, context, Unrun(body)) {
        Ok(why) => Err(why),
        Err(task) => Ok(recorded.execute(name, context, || (task.0)(Body::Run))),
    });
    // A span's end is its subscriber's code. And something may have panicked before the closure was
    // called.
    let closed = guarded(|| drop(recorded));
    let dropped = guarded(|| body(Body::Drop));
    let ended = match ran {
        Ok(Ok(Ok(()))) => Ended::Returned,
        Ok(Ok(Err(payload))) | Err(payload) => Ended::Panicked(payload),
        Ok(Err(why)) => Ended::NotRun(why),
    };
    ended.and(closed).and(dropped)
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

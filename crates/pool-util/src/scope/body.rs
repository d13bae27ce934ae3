//! Runs a scope's task. Compiled once for all closures: generic callers pass the closure as a
//! [`dyn FnMut(Body)`](Body).
//!
//! Nothing here unwinds, even if the pool's clock, its hooks or the submitter's span panic.

use std::mem;
use std::sync::Arc;

use pool_core::internals::{Recorded, TaskContext};
use pool_core::{JoinError, TaskOutcome};
use sync_shim::foreign::{Payload, discard, guarded};

/// Request to a task's closure.
pub(super) enum Body {
    Run,
    /// Drops the closure if it was not run.
    Drop,
}

pub(super) enum Ended {
    Returned,
    Panicked(Payload),
    NotRun(TaskOutcome),
}

impl Ended {
    pub(super) fn error(self, context: &TaskContext) -> Option<JoinError> {
        Some(match self {
            Self::Returned => return None,
            Self::Panicked(payload) => context.panicked(payload),
            Self::NotRun(TaskOutcome::Expired) => JoinError::Expired,
            Self::NotRun(_) => JoinError::Cancelled,
        })
    }
}

/// Drops the closure of a task that is not run.
struct Unrun<'a>(&'a mut dyn FnMut(Body));

impl Drop for Unrun<'_> {
    fn drop(&mut self) {
        (self.0)(Body::Drop);
    }
}

/// Runs a task, or drops it if it was cancelled or has expired. A panic of any user code is reported as
/// the task's.
pub(super) fn run(
    name: &'static str,
    recorded: Option<Arc<Recorded>>,
    context: &TaskContext,
    body: &mut dyn FnMut(Body),
) -> Ended {
    let ended = run_uncounted(name, recorded, context, body);
    if matches!(ended, Ended::Panicked(_)) {
        context.count_panicked_piece();
    }
    ended
}

fn run_uncounted(
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
    // USER CODE: the drop of a closure that was not called.
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

/// Like [`run`], for a task without a handle. Returns its panic.
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

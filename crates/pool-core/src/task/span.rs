//! The submitter's span and subscriber, entered around its task.

use tracing::Span;
use tracing::dispatcher::{self, Dispatch};

/// What was current where a task was handed over.
pub(crate) struct CarriedSpan {
    dispatch: Dispatch,
    span: Span,
}

impl CarriedSpan {
    /// Of the calling thread. Runs the subscriber's code.
    pub(crate) fn current() -> Self {
        Self {
            dispatch: dispatcher::get_default(Dispatch::clone),
            span: Span::current(),
        }
    }

    /// Runs something there. The subscriber's code may panic.
    pub(crate) fn enter<T>(&self, run: impl FnOnce() -> T) -> T {
        dispatcher::with_default(&self.dispatch, || self.span.in_scope(run))
    }
}

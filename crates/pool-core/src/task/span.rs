//! The submitter's span and subscriber, entered around its task. Without the feature `tracing` everything here is empty.

#[cfg(feature = "tracing")]
use tracing::{
    Span,
    dispatcher::{self, Dispatch},
};

use crate::foreign::Payload;
#[cfg(feature = "tracing")]
use crate::foreign::{drop_quietly, guarded};
use crate::task::run::TaskContext;

/// The span and subscriber that were current when a task was submitted, if its pool
/// [carries](crate::Builder::carry_span) them.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct CarriedSpan {
    #[cfg(feature = "tracing")]
    from: Option<(Dispatch, Span)>,
}

impl CarriedSpan {
    /// Captures those of the calling thread. Calls the subscriber.
    #[cfg_attr(
        not(feature = "tracing"),
        expect(unused_variables, reason = "nothing is carried")
    )]
    pub fn current(context: &TaskContext) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            from: context
                .carries_span
                .then(|| (dispatcher::get_default(Dispatch::clone), Span::current())),
        }
    }

    /// Runs a task in the span. A panic of the subscriber counts as the task's.
    ///
    /// # Errors
    /// The payload of a panic.
    #[inline]
    pub fn execute<T>(&self, run: impl FnOnce() -> Result<T, Payload>) -> Result<T, Payload> {
        #[cfg(feature = "tracing")]
        if let Some((dispatch, span)) = &self.from {
            let entered = || dispatcher::with_default(dispatch, || span.in_scope(run));
            // USER CODE: the subscriber of `tracing`, around the task.
            return guarded(entered).and_then(|ran| ran);
        }
        run()
    }
}

/// Closes the span, which calls the subscriber.
#[cfg(feature = "tracing")]
impl Drop for CarriedSpan {
    fn drop(&mut self) {
        drop_quietly(self.from.take());
    }
}

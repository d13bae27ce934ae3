//! What a schedule runs: a closure once, or the same one again and again.

use std::any::type_name;

use crate::series::OnPanic;

/// What a schedule runs.
pub(crate) trait Body: Send + 'static {
    /// What its handle joins with.
    type Out: Send + 'static;
    /// One run. `Some` ends the schedule.
    fn call(&mut self) -> Option<Self::Out>;
    /// What a panic in `call` does.
    fn after_panic(&self) -> AfterPanic<Self::Out>;
    /// What the panic hook is told.
    fn name() -> &'static str;
}

/// What a panic does to a schedule.
#[derive(Debug)]
pub(crate) enum AfterPanic<T> {
    /// It ends, and the handle has the panic.
    Fail,
    /// It goes on.
    GoOn,
    /// It was the last run anyway.
    End(T),
}

/// A closure with one run.
pub(crate) struct Once<F>(pub(crate) Option<F>);

impl<F, R> Body for Once<F>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    type Out = R;

    fn call(&mut self) -> Option<R> {
        self.0.take().map(|task| task())
    }

    fn after_panic(&self) -> AfterPanic<R> {
        AfterPanic::Fail
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// A closure with many.
pub(crate) struct Many<F> {
    pub(crate) task: F,
    /// Runs that are left, if they are limited.
    pub(crate) left: Option<u64>,
    pub(crate) on_panic: OnPanic,
}

impl<F: FnMut() + Send + 'static> Body for Many<F> {
    type Out = ();

    fn call(&mut self) -> Option<()> {
        self.left = self.left.map(|left| left.saturating_sub(1)); // Also if it panics.
        (self.task)();
        (self.left == Some(0)).then_some(())
    }

    fn after_panic(&self) -> AfterPanic<()> {
        match self.on_panic {
            OnPanic::Stop => AfterPanic::Fail,
            OnPanic::Continue if self.left == Some(0) => AfterPanic::End(()),
            OnPanic::Continue => AfterPanic::GoOn,
        }
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

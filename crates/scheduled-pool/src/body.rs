//! What a schedule runs: a closure once, or the same one repeatedly.

use std::any::type_name;

use crate::series::OnPanic;

/// What a schedule runs.
pub trait Body: Send + 'static {
    /// What its handle joins with.
    type Out: Send + 'static;
    /// One run. `Some` ends the schedule.
    fn call(&mut self) -> Option<Self::Out>;
    /// What a panic in `call` does.
    fn after_panic(&self) -> AfterPanic<Self::Out>;
    /// The name that the panic hook is called with.
    fn name() -> &'static str;
}

/// What a panic does to a schedule.
#[derive(Debug)]
pub enum AfterPanic<T> {
    /// The schedule ends, and its handle has the panic.
    Fail,
    /// The schedule goes on.
    GoOn,
    /// The schedule ends as if there had been no panic: it was the last run.
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

/// A closure with many runs.
#[expect(missing_debug_implementations, reason = "a closure has none")]
pub struct Many<F> {
    /// The closure.
    pub task: F,
    /// Runs that are left, if they are limited.
    pub left: Option<u64>,
    /// What a panic in a run does.
    pub on_panic: OnPanic,
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

//! The tasks of both kinds of pool as bodies: a closure, an argument of the pool's function, and a task of a group.

use std::any::type_name;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::engine::runner::{Accepts, Runner, Sealed, SealedFor};
use crate::sched::load::Outcome;
use crate::sched::ready::Priority;
use crate::task::cell::{Body, SpawnCell};
use crate::task::current::Running;
use crate::task::erased::{Packed, SmallTask, Task, Work, fits};
use crate::task::options::{Recorded, TaskOptions, TaskRecord, WaitLimits};
use crate::task::run::{TaskContext, TaskResult, Unrun};

/// A runner that calls closures: that of a [`Pool`](crate::Pool).
#[derive(Clone, Debug)]
pub struct Closures(());

/// A runner that calls one function: that of a [`FuncPool`](crate::FuncPool).
#[derive(Debug)]
pub struct Func<T, R>(PhantomData<fn(T) -> R>);

impl Runner for Closures {}
impl Sealed for Closures {}
impl<T: Send + 'static, R: Send + 'static> Runner for Func<T, R> {}
impl<T, R> Sealed for Func<T, R> {}

impl<F, T> Body for F
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self, _: &TaskContext) -> T {
        self()
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// `F` is a closure that returns a `T`.
impl<F, T> Accepts<F> for Closures
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Value = T;
    type Body = F;

    #[inline]
    fn body_of(closure: F) -> F {
        closure
    }

    fn task_of(closure: F) -> F {
        closure
    }
}

impl<F, T> SealedFor<F> for Closures
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
}

/// The function of a typed pool.
pub(crate) struct Function<T, R>(Box<dyn Fn(T) -> R + Send + Sync>);

impl<T, R> Function<T, R> {
    pub(crate) fn new(function: impl Fn(T) -> R + Send + Sync + 'static) -> Self {
        Self(Box::new(function))
    }
}

/// An argument of a typed pool's function.
// Packed, so that a large argument stays in its box until the function is called.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct Argument<T, R>(Packed<T>, PhantomData<fn() -> R>);

impl<T: Send + 'static, R: Send + 'static> Body for Argument<T, R> {
    type Out = R;

    #[inline]
    fn call(self, context: &TaskContext) -> R {
        let function: Option<&Function<T, R>> = context.function();
        let function = function.expect("a typed pool has a function of its arguments");
        (function.0)(self.0.into_inner())
    }

    fn name() -> &'static str {
        type_name::<T>()
    }
}

impl<T: Send + 'static, R: Send + 'static> Accepts<T> for Func<T, R> {
    type Value = R;
    type Body = Argument<T, R>;

    #[inline]
    fn body_of(argument: T) -> Argument<T, R> {
        Argument(Packed::new(argument), PhantomData)
    }

    fn task_of(body: Argument<T, R>) -> T {
        body.0.into_inner()
    }
}

impl<T: Send + 'static, R: Send + 'static> SealedFor<T> for Func<T, R> {}

impl<T, R> Clone for Func<T, R> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

/// A closure of a group, whose value is dropped as part of the task.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Ignored<F>(pub F);

/// The value of an [`Ignored`] closure.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct NoValue;

impl<F, V> Body for Ignored<F>
where
    F: FnOnce() -> V + Send + 'static,
{
    type Out = NoValue;

    fn call(self, _: &TaskContext) -> NoValue {
        // Here, so that a panic of the value's drop counts as the task's.
        drop((self.0)());
        NoValue
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

impl<F, V> Accepts<Ignored<F>> for Closures
where
    F: FnOnce() -> V + Send + 'static,
{
    type Value = NoValue;
    type Body = Ignored<F>;

    #[inline]
    fn body_of(task: Ignored<F>) -> Ignored<F> {
        task
    }

    fn task_of(task: Ignored<F>) -> Ignored<F> {
        task
    }
}

impl<F, V> SealedFor<Ignored<F>> for Closures where F: FnOnce() -> V + Send + 'static {}

/// The queue's half of a task in a cell.
pub(crate) struct Spawned(pub(crate) Arc<SpawnCell>);

impl Work for Spawned {
    fn run(self, context: &TaskContext) -> TaskResult {
        self.0.run(context)
    }

    fn release(self) -> TaskResult {
        self.0.release(None)
    }

    fn seize(&self, why: Unrun) -> bool {
        self.0.seize(why)
    }

    fn priority(&self) -> Priority {
        self.0.priority()
    }

    fn type_name(&self) -> Option<&'static str> {
        Some(self.0.type_name())
    }

    fn given_name(&self) -> Option<&str> {
        self.0.given_name()
    }

    fn is_tombstone(&self) -> bool {
        self.0.is_tombstone()
    }
}

/// A submitted task with options.
// The options have an allocation of their own, because the current task may be kept. With the task in it, it would be
// larger than what the system's allocator frees without a lock.
struct WithOptions {
    task: SmallTask,
    recorded: Arc<Recorded>,
}

const _: () = assert!(fits::<WithOptions>(), "it needs no box");

impl Work for WithOptions {
    fn run(self, context: &TaskContext) -> TaskResult {
        let Self { task, recorded } = self;
        let type_name = task.body_name()();
        let outcome = match recorded.drop_unrun(type_name, context, task.into_task()) {
            Ok(why) => Outcome::not_run(why),
            Err(task) => Outcome::of(recorded.execute(type_name, context, || task.call(context))),
        };
        TaskResult::without_handle(outcome)
    }

    fn release(self) -> TaskResult {
        self.task.into_task().release()
    }

    fn without_record(self) -> Task {
        self.task.into_task()
    }

    fn priority(&self) -> Priority {
        self.recorded.priority()
    }

    fn type_name(&self) -> Option<&'static str> {
        Some(self.task.body_name()())
    }

    fn given_name(&self) -> Option<&str> {
        self.recorded.name()
    }
}

impl Task {
    /// Like [`release`](Self::release), and returns the body if it is a `B`.
    pub(crate) fn release_body<B: Body>(self) -> (TaskResult, Option<B>) {
        let other = match self.into_inner() {
            Ok(body) => return (TaskResult::without_handle(Outcome::Released), Some(body)),
            Err(other) => other,
        };
        let other = match other.into_inner::<WithOptions>() {
            Ok(WithOptions { task, .. }) => return task.into_task().release_body(),
            Err(other) => other,
        };
        let cell = match other.into_inner::<Spawned>() {
            Ok(Spawned(cell)) => cell,
            Err(other) => return (other.release(), None),
        };
        let mut body = None;
        let result = cell.release(Some(&mut |content| content.take(&mut body)));
        (result, body)
    }

    /// Stores the task with a record. It has no handle.
    pub(crate) fn with_record(self, record: TaskRecord) -> Self {
        Self::new(WithOptions {
            task: SmallTask::new(self),
            recorded: Recorded::of(record),
        })
    }

    /// Returns the limits of the wait for room of a task with a record, too.
    pub(crate) fn with_limits(self) -> (Self, Option<WaitLimits<'static>>) {
        match self.into_inner::<WithOptions>() {
            Ok(it) => {
                let limits = it.recorded.limits();
                (Self::new(it), Some(limits))
            }
            Err(other) => (other, None),
        }
    }

    /// Stores the task with the record that it needs, if any. Returns the limits of its wait for room, too.
    pub(crate) fn with_options(
        self,
        options: Option<TaskOptions>,
        context: &TaskContext,
    ) -> (Self, Option<WaitLimits<'static>>) {
        match context.record_of(options) {
            None => (self, None),
            Some(record) => {
                let limits = record.limits();
                (self.with_record(record), Some(limits))
            }
        }
    }
}

//! What may be handed to a pool: a closure, or a typed pool's argument.
//!
//! The trait is the runner's and not the task's. So the compiler knows a typed pool's argument
//! before it looks at what is handed over, and `pool.submit(text.into())` or a coercion to a boxed
//! trait object needs no annotation.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::engine::runner::Runner;
use crate::task::cell::SpawnCell;
use crate::task::record::TaskRecord;

/// What a pool takes as a task: with a runner that `Accepts<T>`, the pool takes any `T`.
///
/// - [`Closures`](crate::Closures), the runner of a [`Pool`](crate::Pool), accepts every
///   `FnOnce() -> V + Send + 'static`, and the value is what the closure returns.
/// - [`Func<T, V>`](crate::Func), the runner of a [`FuncPool<T, V>`](crate::FuncPool), accepts a
///   `T`, the function's argument, and the value is what the function returns.
///
/// Functions over any kind of pool name it as a bound:
///
/// ```
/// use pool_core::{Accepts, FuncPool, JoinError, JoinHandle, Pool, SubmitError, WorkerPool};
///
/// fn spawn_all<R: Accepts<T>, T>(
///     pool: &WorkerPool<R>,
///     tasks: impl IntoIterator<Item = T>,
/// ) -> Result<Vec<JoinHandle<R::Value>>, SubmitError<T>> {
///     tasks.into_iter().map(|task| pool.spawn(task)).collect()
/// }
///
/// let pool = Pool::builder().capacity(2).build()?;
/// let closures = [1, 2, 3].map(|n| move || n * n);
/// let squares = FuncPool::builder(|n: i32| n * n).capacity(2).build()?;
/// for handles in [spawn_all(&pool, closures)?, spawn_all(&squares, [1, 2, 3])?] {
///     let values = handles.into_iter().map(JoinHandle::join).collect::<Result<Vec<_>, _>>()?;
///     assert_eq!(values, [1, 4, 9]);
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// The trait is sealed. A trait object for any pool that takes a `T` is
/// [`dyn Submit<T>`](crate::Submit).
#[diagnostic::on_unimplemented(
    message = "a pool of `{Self}` does not take a `{T}`",
    label = "not a task of this pool",
    note = "a `Pool` takes closures: `FnOnce() -> V + Send + 'static`, with `V: Send + 'static`",
    note = "a `FuncPool<T, V>` takes arguments: `T: Send + 'static`",
    note = "a function over any runner `R` asks for `R: Accepts<{T}>`"
)]
pub trait Accepts<T>: Runner + Sealed<T> {
    /// What a task returns. Of a submitted task it is dropped on the worker, as a part of the task;
    /// a spawned one's goes to its handle.
    type Value: Send + 'static;

    /// A task without a handle.
    #[doc(hidden)]
    fn plain(task: T) -> Self::Job;

    /// The same, made where it is to lie. It is written when this returns, and runs no user code.
    #[doc(hidden)]
    #[inline]
    fn plain_in(task: T, place: &mut MaybeUninit<Self::Job>) {
        place.write(Self::plain(task));
    }

    /// The task of such a job, which was refused.
    #[doc(hidden)]
    fn task_of(job: Self::Job) -> T;

    /// A task with a handle, and what it was given.
    #[doc(hidden)]
    fn in_cell(&self, task: T, record: Option<Box<TaskRecord>>) -> Arc<SpawnCell>;

    /// The task in such a cell, whose job was refused.
    #[doc(hidden)]
    fn task_in(cell: &SpawnCell) -> T;
}

/// Implemented for the two runners, and for what each takes.
pub trait Sealed<T> {}

//! The types that a pool accepts as tasks: closures, or a typed pool's argument.
//!
//! The runner implements the trait, not the task. So the compiler knows a typed pool's argument type before it looks at
//! the value, and `pool.submit(text.into())` or a coercion to a boxed trait object needs no annotation.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::engine::runner::Runner;
use crate::task::cell::SpawnCell;
use crate::task::record::TaskRecord;

/// The types that a runner accepts as tasks: a pool whose runner implements `Accepts<T>` takes any `T`.
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
    /// The value of a task. The value of a submitted task is dropped on the worker as part of the task; that of a spawned
    /// task goes to its handle.
    type Value: Send + 'static;

    /// Creates the job of a task without a handle.
    #[doc(hidden)]
    fn plain(task: T) -> Self::Job;

    /// The same, constructed in place. The job is written on return, and no user code is run.
    #[doc(hidden)]
    #[inline]
    fn plain_in(task: T, place: &mut MaybeUninit<Self::Job>) {
        place.write(Self::plain(task));
    }

    /// Takes the task back out of such a job that was refused.
    #[doc(hidden)]
    fn task_of(job: Self::Job) -> T;

    /// Creates the cell of a task with a handle and its record.
    #[doc(hidden)]
    fn in_cell(&self, task: T, record: Option<Box<TaskRecord>>) -> Arc<SpawnCell>;

    /// Takes the task back out of such a cell whose job was refused.
    #[doc(hidden)]
    fn task_in(cell: &SpawnCell) -> T;
}

/// Seals [`Accepts`]. Implemented for the two runners.
pub trait Sealed<T> {}

//! The two runners, and the types that each accepts as tasks.

use crate::task::cell::Body;

/// How a pool runs its tasks: it calls closures, or one function with each argument.
///
/// A runner exists only in types: the queue, the workers and the admission are the same code for both. Sealed, and public
/// for bounds.
pub trait Runner: Sealed + Send + Sync + Sized + 'static {}

/// Seals [`Runner`]. Implemented for the two runners.
pub trait Sealed {}

// The runner implements `Accepts`, not the task. So the compiler knows a typed pool's argument type before it looks at
// the value, and `pool.submit(text.into())` or a coercion to a boxed trait object needs no annotation.
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
pub trait Accepts<T>: Runner + SealedFor<T> {
    /// The value of a task. The value of a submitted task is dropped on the worker as part of the task; that of a spawned
    /// task goes to its handle.
    type Value: Send + 'static;

    /// The task as it is stored.
    #[doc(hidden)]
    type Body: Body<Out = Self::Value>;

    #[doc(hidden)]
    fn body_of(task: T) -> Self::Body;

    /// Returns a task that was refused.
    #[doc(hidden)]
    fn task_of(body: Self::Body) -> T;
}

/// Seals [`Accepts`]. Implemented for the two runners.
pub trait SealedFor<T> {}

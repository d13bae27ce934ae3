//! One face for every kind of pool, so that a caller need not care which it was given.
//!
//! [`Workers`] is what all have in common, [`Submit`] takes tasks of one type, [`Spawn`] gives
//! handles to their values. `Pool`, `FuncPool` and the multi-pools have them all.
//!
//! Not for: calls on a pool of known type. Its own methods do the same and return futures that are
//! not boxed.
//!
//! All three may be trait objects: `&dyn Submit<Box<dyn FnOnce() + Send>>` is any pool of closures.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::capacity::Capacity;
use crate::error::{SubmitError, TuneError, WaitError};
use crate::handle::JoinHandle;
use crate::stats::Stats;

/// A future of no known type.
pub type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Figures and life of a pool. Each method does what [`WorkerPool`](crate::WorkerPool)'s of the same name does.
pub trait Workers: Send + Sync {
    /// The pool's name.
    fn name(&self) -> &str;
    /// Live workers, idle ones included.
    fn running(&self) -> usize;
    /// Workers that could still be started; `None` if unlimited.
    fn free(&self) -> Option<usize>;
    /// Threads and futures that wait for room.
    fn waiting(&self) -> usize;
    /// The most live workers there may be.
    fn capacity(&self) -> Capacity;
    /// Accepted tasks that have not started.
    fn queued(&self) -> usize;
    /// Accepted tasks that have not ended.
    fn in_flight(&self) -> usize;
    /// All figures.
    fn stats(&self) -> Stats;
    /// Whether the pool has been released, and not rebooted since.
    fn is_released(&self) -> bool;
    /// Whether the calling thread is one of the pool's workers.
    fn is_own_worker(&self) -> bool;

    /// Changes the capacity (of a multi-pool: each pool's).
    ///
    /// # Errors
    /// For a capacity of zero, and for an unlimited one if the pool is preallocated.
    fn tune(&self, capacity: Capacity) -> Result<(), TuneError>;
    /// Accepts nothing from now on. `false` if that was done before.
    fn release(&self) -> bool;
    /// Releases, and drops what has not started: the number of those tasks.
    fn release_now(&self) -> usize;
    /// Releases, and waits for the end at most for so long.
    ///
    /// # Errors
    /// See [`WaitError`]. The pool is released all the same.
    fn release_timeout(&self, timeout: Duration) -> Result<(), WaitError>;
    /// Releases, and waits for the end at most until then.
    ///
    /// # Errors
    /// See [`WaitError`]. The pool is released all the same.
    fn release_deadline(&self, deadline: Instant) -> Result<(), WaitError>;
    /// Waits until the pool has ended.
    ///
    /// # Errors
    /// See [`WaitError`].
    fn wait_released(&self) -> Result<(), WaitError>;
    /// Waits for the end at most for so long.
    ///
    /// # Errors
    /// See [`WaitError`].
    fn wait_released_timeout(&self, timeout: Duration) -> Result<(), WaitError>;
    /// Waits for the end at most until then.
    ///
    /// # Errors
    /// See [`WaitError`].
    fn wait_released_deadline(&self, deadline: Instant) -> Result<(), WaitError>;
    /// Waits until nothing is in flight.
    ///
    /// # Errors
    /// See [`WaitError`].
    fn wait_idle(&self) -> Result<(), WaitError>;
    /// Waits until nothing is in flight, at most for so long.
    ///
    /// # Errors
    /// See [`WaitError`].
    fn wait_idle_timeout(&self, timeout: Duration) -> Result<(), WaitError>;
    /// Waits until nothing is in flight, at most until then.
    ///
    /// # Errors
    /// See [`WaitError`].
    fn wait_idle_deadline(&self, deadline: Instant) -> Result<(), WaitError>;
    /// Opens a released pool again. `false` if it is open.
    fn reboot(&self) -> bool;
}

/// Takes tasks of type `T`: closures, or a typed pool's arguments.
///
/// ```
/// use pool_core::{FuncPool, Pool, Submit};
///
/// fn twice<T: Clone>(pool: &impl Submit<T>, task: &T) -> bool {
///     pool.submit(task.clone()).is_ok() && pool.submit(task.clone()).is_ok()
/// }
///
/// assert!(twice(&Pool::builder().capacity(1).build()?, &|| ()));
/// assert!(twice(&FuncPool::builder(|_: u8| ()).capacity(1).build()?, &7));
/// # Ok::<(), pool_core::BuildError>(())
/// ```
pub trait Submit<T>: Workers {
    /// Hands a task over. Waits while the pool is full.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn submit(&self, task: T) -> Result<(), SubmitError<T>>;
    /// Refuses at a full pool.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn try_submit(&self, task: T) -> Result<(), SubmitError<T>>;
    /// Waits at most for so long.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn submit_timeout(&self, task: T, timeout: Duration) -> Result<(), SubmitError<T>>;
    /// Waits at most until then.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn submit_deadline(&self, task: T, deadline: Instant) -> Result<(), SubmitError<T>>;
    /// As a future that resolves once the task is accepted.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn submit_async(&self, task: T) -> BoxedFuture<Result<(), SubmitError<T>>>;
}

/// Takes tasks of type `T` and returns handles to their values.
pub trait Spawn<T>: Workers {
    /// What a task returns.
    type Value: Send + 'static;

    /// Hands a task over. Waits while the pool is full.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn spawn(&self, task: T) -> Result<JoinHandle<Self::Value>, SubmitError<T>>;
    /// Refuses at a full pool.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn try_spawn(&self, task: T) -> Result<JoinHandle<Self::Value>, SubmitError<T>>;
    /// Waits at most for so long.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn spawn_timeout(
        &self,
        task: T,
        timeout: Duration,
    ) -> Result<JoinHandle<Self::Value>, SubmitError<T>>;
    /// Waits at most until then.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn spawn_deadline(
        &self,
        task: T,
        deadline: Instant,
    ) -> Result<JoinHandle<Self::Value>, SubmitError<T>>;
    /// As a future that resolves to the handle.
    ///
    /// # Errors
    /// The task comes back: see [`SubmitError`].
    fn spawn_async(&self, task: T) -> BoxedFuture<Result<JoinHandle<Self::Value>, SubmitError<T>>>;
}

mod impls;

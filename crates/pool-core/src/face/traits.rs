//! Traits common to every kind of pool, for callers that are independent of the kind.
//!
//! [`Workers`] has the statistics and the lifecycle, [`Submit`] takes tasks of one type, [`Spawn`]
//! returns handles to their values, [`Reserve`] gives permits. `Pool`, `FuncPool` and the
//! multi-pools implement all of them.
//!
//! Use the inherent methods for a pool of known type: their futures are not boxed.
//!
//! All but [`Reserve`] can be trait objects: `&dyn Submit<Box<dyn FnOnce() + Send>>` is any pool of
//! closures.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::Timeout;

use crate::config::{Capacity, OnFull};
use crate::engine::admit::{Admit, AdmitHandle, Spawned};
use crate::engine::runner::{Accepts, Runner};
use crate::engine::wait::Awaited;
use crate::error::{SubmitError, TuneError, WaitError};
use crate::face::pool::WorkerPool;
use crate::face::submit::ReserveFuture;
use crate::permit::Permit;
use crate::stats::Stats;
use crate::task::erased::Task;

/// A boxed future.
pub type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Statistics and lifecycle of a pool. Each method does the same as the [`WorkerPool`] method of the
/// same name. Methods named `.._until` wait without a limit if there is no deadline.
///
/// ```
/// use pool_core::{FuncPool, Pool, Workers};
///
/// let closures = Pool::builder().name("closures").capacity(1).build()?;
/// let lengths = FuncPool::builder(|text: String| text.len()).name("lengths").capacity(1).build()?;
/// let all: [&dyn Workers; 2] = [&closures, &lengths];
/// for pool in all {
///     println!("{}: {} in flight", pool.name(), pool.stats().in_flight);
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[expect(
    clippy::missing_errors_doc,
    reason = "documented on the pools' own methods"
)]
pub trait Workers: Send + Sync {
    /// Returns the pool's name.
    fn name(&self) -> &str;
    /// Returns a snapshot of the statistics.
    fn stats(&self) -> Stats;
    /// Returns whether the pool is released (and has not been rebooted since).
    fn is_released(&self) -> bool;
    /// Returns whether the calling thread is one of the pool's workers.
    fn is_own_worker(&self) -> bool;
    /// Policy of calls without a timeout at a full pool, as set by the builder.
    fn on_full(&self) -> OnFull;
    /// Returns the deadline of a wait that starts now, by the pool's clock; `None` if it has no limit.
    fn deadline(&self, timeout: Duration) -> Option<Instant>;

    /// Changes the capacity (of every member of a multi-pool).
    fn tune(&self, capacity: Capacity) -> Result<(), TuneError>;
    /// Stops accepting tasks. Returns `false` if the pool was released before.
    fn release(&self) -> bool;
    /// Releases the pool, drops tasks that have not started, and returns their number.
    fn release_now(&self) -> usize;
    /// Releases the pool and waits for its end.
    fn release_until(&self, deadline: Option<Instant>) -> Result<(), WaitError>;
    /// Waits for the pool's end.
    fn wait_released_until(&self, deadline: Option<Instant>) -> Result<(), WaitError>;
    /// Waits until no task is in flight.
    fn wait_idle_until(&self, deadline: Option<Instant>) -> Result<(), WaitError>;
    /// Reopens a released pool. Returns `false` if it is open.
    fn reboot(&self) -> bool;
    /// Stops starting queued tasks. Returns `false` if the pool is paused or released.
    fn pause(&self) -> bool;
    /// Starts queued tasks again. Returns `false` if the pool is not paused.
    fn resume(&self) -> bool;
    /// Returns whether the pool is paused.
    fn is_paused(&self) -> bool;

    /// Returns the number of live workers, including idle ones.
    fn running(&self) -> usize {
        self.stats().live
    }
    /// Returns the number of workers that can still be started; `None` if unlimited.
    fn free(&self) -> Option<usize> {
        let stats = self.stats();
        Some(stats.capacity.limit()?.saturating_sub(stats.live))
    }
    /// Returns the number of threads and futures that wait for room.
    fn waiting(&self) -> usize {
        self.stats().waiting
    }
    /// Returns the maximum number of live workers.
    fn capacity(&self) -> Capacity {
        self.stats().capacity
    }
    /// Returns the number of accepted tasks that have not started.
    fn queued(&self) -> usize {
        self.stats().queued
    }
    /// Returns the number of accepted tasks that have not ended.
    fn in_flight(&self) -> usize {
        self.stats().in_flight
    }
    /// Waits until the pool has ended.
    fn wait_released(&self) -> Result<(), WaitError> {
        self.wait_released_until(None)
    }
    /// Waits until no task is in flight.
    fn wait_idle(&self) -> Result<(), WaitError> {
        self.wait_idle_until(None)
    }
}

/// Pools that accept tasks of type `T`: closures, or a typed pool's arguments. Each method does the
/// same as the [`WorkerPool`] method of the same name. Errors contain the refused task.
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
#[expect(
    clippy::missing_errors_doc,
    reason = "documented on the pools' own methods"
)]
pub trait Submit<T>: Workers {
    /// Submits a task; `on_full` applies at a full pool.
    fn submit_with(&self, task: T, on_full: OnFull) -> Result<(), SubmitError<T>>;
    /// Resolves once the task is accepted.
    fn submit_async(&self, task: T) -> BoxedFuture<Result<(), SubmitError<T>>>;

    /// Waits while the pool is full.
    fn submit(&self, task: T) -> Result<(), SubmitError<T>> {
        self.submit_with(task, self.on_full())
    }
    /// Refuses at a full pool.
    fn try_submit(&self, task: T) -> Result<(), SubmitError<T>> {
        self.submit_with(task, OnFull::Refuse)
    }
}

/// Pools that accept tasks of type `T` and return handles to their values. Each method does the same
/// as the [`WorkerPool`] method of the same name. Errors contain the refused task.
///
/// ```
/// use pool_core::{FuncPool, Spawn};
///
/// /// Accepts any kind of pool.
/// fn length(pool: &impl Spawn<String, Value = usize>, text: &str) -> Option<usize> {
///     pool.spawn(text.to_owned()).ok()?.join().ok()
/// }
///
/// let lengths = FuncPool::builder(|text: String| text.len()).capacity(1).build()?;
/// assert_eq!(length(&lengths, "ant"), Some(3));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[expect(
    clippy::missing_errors_doc,
    reason = "documented on the pools' own methods"
)]
pub trait Spawn<T>: Workers {
    /// Type of a task's value.
    type Value: Send + 'static;

    /// Spawns a task; `on_full` applies at a full pool.
    fn spawn_with(&self, task: T, on_full: OnFull) -> Spawned<Self::Value, T>;
    /// Resolves to the handle once the task is accepted.
    fn spawn_async(&self, task: T) -> BoxedFuture<Spawned<Self::Value, T>>;

    /// Waits while the pool is full.
    fn spawn(&self, task: T) -> Spawned<Self::Value, T> {
        self.spawn_with(task, self.on_full())
    }
    /// Refuses at a full pool.
    fn try_spawn(&self, task: T) -> Spawned<Self::Value, T> {
        self.spawn_with(task, OnFull::Refuse)
    }
}

/// Pools that reserve room for tasks that are submitted later. Each method does the same as the
/// [`WorkerPool`] method of the same name. Unlike the other traits, it does not support trait objects.
///
/// ```
/// use pool_core::{Pool, Reserve};
///
/// fn has_room(pool: &impl Reserve) -> bool {
///     pool.try_reserve().is_ok() // The permit is dropped, and gives its room back.
/// }
///
/// assert!(has_room(&Pool::builder().capacity(1).build()?));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[expect(
    clippy::missing_errors_doc,
    reason = "documented on the pools' own methods"
)]
pub trait Reserve: Workers + Clone + 'static {
    /// Kind of the tasks that the permits are for.
    type Runner: Runner;
    /// Resolves to a permit.
    type ReserveFuture: Future<Output = Result<Permit<Self::Runner>, SubmitError>> + Send + Unpin;

    /// Reserves room for one task; `on_full` applies at a full pool.
    fn reserve_with(&self, on_full: OnFull) -> Result<Permit<Self::Runner>, SubmitError>;
    /// Resolves to a permit once room is reserved.
    fn reserve_async(&self) -> Self::ReserveFuture;

    /// Waits while the pool is full.
    fn reserve(&self) -> Result<Permit<Self::Runner>, SubmitError> {
        self.reserve_with(self.on_full())
    }
    /// Refuses at a full pool.
    fn try_reserve(&self) -> Result<Permit<Self::Runner>, SubmitError> {
        self.reserve_with(OnFull::Refuse)
    }
    /// Waits for at most a duration, or until an instant.
    fn reserve_timeout(
        &self,
        timeout: impl Into<Timeout>,
    ) -> Result<Permit<Self::Runner>, SubmitError> {
        self.reserve_with(OnFull::Wait(deadline(self, timeout)))
    }
}

/// Calls with a timeout, also for trait objects. The timeout is a [`Duration`], or an
/// [`Instant`](std::time::Instant) by the pool's clock.
///
/// ```
/// use pool_core::{Pool, Submit, TimeoutExt};
/// use std::time::Duration;
///
/// let pool = Pool::builder().capacity(1).build()?;
/// let any: &dyn Submit<fn()> = &pool;
/// any.submit_timeout(|| println!("there was room"), Duration::from_secs(60))?;
/// any.wait_idle_timeout(Duration::from_secs(60))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[expect(
    clippy::missing_errors_doc,
    reason = "documented on the pools' own methods"
)]
pub trait TimeoutExt: Workers {
    /// Submits a task; waits for room for at most a duration, or until an instant.
    fn submit_timeout<T>(&self, task: T, timeout: impl Into<Timeout>) -> Result<(), SubmitError<T>>
    where
        Self: Submit<T>,
    {
        self.submit_with(task, OnFull::Wait(deadline(self, timeout)))
    }
    /// Spawns a task; waits for room for at most a duration, or until an instant.
    fn spawn_timeout<T>(&self, task: T, timeout: impl Into<Timeout>) -> Spawned<Self::Value, T>
    where
        Self: Spawn<T>,
    {
        self.spawn_with(task, OnFull::Wait(deadline(self, timeout)))
    }
    /// Releases the pool and waits for its end, for at most a duration, or until an instant.
    fn release_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), WaitError> {
        self.release_until(deadline(self, timeout))
    }
    /// Waits for the pool's end, for at most a duration, or until an instant.
    fn wait_released_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), WaitError> {
        self.wait_released_until(deadline(self, timeout))
    }
    /// Waits until no task is in flight, for at most a duration, or until an instant.
    fn wait_idle_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), WaitError> {
        self.wait_idle_until(deadline(self, timeout))
    }
}

impl<P: Workers + ?Sized> TimeoutExt for P {}

fn deadline(pool: &(impl Workers + ?Sized), timeout: impl Into<Timeout>) -> Option<Instant> {
    match timeout.into() {
        Timeout::After(timeout) => pool.deadline(timeout),
        Timeout::At(deadline) => Some(deadline),
    }
}

impl<R: Runner, A: Admit> Workers for WorkerPool<R, A> {
    fn name(&self) -> &str {
        self.name()
    }
    fn stats(&self) -> Stats {
        self.stats()
    }
    fn is_released(&self) -> bool {
        self.is_released()
    }
    fn is_own_worker(&self) -> bool {
        self.is_own_worker()
    }
    fn on_full(&self) -> OnFull {
        self.on_full()
    }
    fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.deadline(timeout)
    }
    fn tune(&self, capacity: Capacity) -> Result<(), TuneError> {
        self.tune(capacity)
    }
    fn release(&self) -> bool {
        self.release()
    }
    fn release_now(&self) -> usize {
        self.admit().release_now(&mut Task::release)
    }
    fn release_until(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.admit()
            .wait(Awaited::Release, deadline)
            .map_err(Into::into)
    }
    fn wait_released_until(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.admit()
            .wait(Awaited::End, deadline)
            .map_err(Into::into)
    }
    fn wait_idle_until(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.admit()
            .wait(Awaited::Rest, deadline)
            .map_err(Into::into)
    }
    fn reboot(&self) -> bool {
        self.reboot()
    }
    fn pause(&self) -> bool {
        self.pause()
    }
    fn resume(&self) -> bool {
        self.resume()
    }
    fn is_paused(&self) -> bool {
        self.is_paused()
    }
}

impl<T: 'static, R: Accepts<T>, A: Admit> Submit<T> for WorkerPool<R, A> {
    fn submit_with(&self, task: T, on_full: OnFull) -> Result<(), SubmitError<T>> {
        // The builder has checked only its own policy, so that of the caller must be checked here.
        let task = self.admit().check_discards(task, on_full)?;
        self.admit().submit_task::<R, _>(task, on_full)
    }
    fn submit_async(&self, task: T) -> BoxedFuture<Result<(), SubmitError<T>>> {
        Box::pin(Arc::clone(self.admit()).submit_task_async::<R, _>(task, None))
    }
}

impl<T: 'static, R: Accepts<T>, A: Admit> Spawn<T> for WorkerPool<R, A> {
    type Value = R::Value;

    fn spawn_with(&self, task: T, on_full: OnFull) -> Spawned<R::Value, T> {
        // The builder has checked only its own policy, so that of the caller must be checked here.
        let task = self.admit().check_discards(task, on_full)?;
        self.admit().spawn_task::<R, _>(task, None, on_full)
    }
    fn spawn_async(&self, task: T) -> BoxedFuture<Spawned<R::Value, T>> {
        Box::pin(Arc::clone(self.admit()).spawn_task_async::<R, _>(task, None))
    }
}

impl<R: Runner, A: Admit> Reserve for WorkerPool<R, A> {
    type Runner = R;
    type ReserveFuture = ReserveFuture<R, A>;

    fn reserve_with(&self, on_full: OnFull) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(on_full)
    }
    fn reserve_async(&self) -> ReserveFuture<R, A> {
        self.reserve_async()
    }
}

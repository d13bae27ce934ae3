//! Functions that use the default pool. Each calls the method of the same name, and creates the pool if it does
//! not exist. Further methods are available through [`default_pool`].
#![expect(
    clippy::missing_errors_doc,
    reason = "the docs link to the methods, which have them"
)]

use std::future::Future;
use std::time::Duration;

use pool_core::{
    Accepts, Capacity, Closures, JoinHandle, Pool, Stats, SubmitError, TaskBuilder, TuneError,
    WaitError,
};
use pool_util::{Map, MapError, PoolExt, Scope};

use crate::default::default_pool;

/// Submits a closure to the default pool. Waits while the pool is full. See
/// [`Pool::submit`](crate::Pool::submit).
pub fn submit<F>(task: F) -> Result<(), SubmitError<F>>
where
    Closures: Accepts<F>,
{
    default_pool().submit(task)
}

/// Like [`submit`], but returns an error at a full pool: see [`Pool::try_submit`](crate::Pool::try_submit).
pub fn try_submit<F>(task: F) -> Result<(), SubmitError<F>>
where
    Closures: Accepts<F>,
{
    default_pool().try_submit(task)
}

/// Like [`submit`], but waits at most for `timeout`: see [`Pool::submit_timeout`](crate::Pool::submit_timeout).
pub fn submit_timeout<F>(task: F, timeout: Duration) -> Result<(), SubmitError<F>>
where
    Closures: Accepts<F>,
{
    default_pool().submit_timeout(task, timeout)
}

/// Async version of [`submit`]: see
/// [`Pool::submit_async`](crate::Pool::submit_async).
pub fn submit_async<F>(
    task: F,
) -> impl Future<Output = Result<(), SubmitError<F>>> + Send + Unpin + use<F>
where
    Closures: Accepts<F>,
{
    default_pool().submit_async(task)
}

/// Submits a closure to the default pool and returns a handle to its value. Waits while the pool is
/// full. See [`Pool::spawn`](crate::Pool::spawn).
pub fn spawn<F, T>(task: F) -> Result<JoinHandle<T>, SubmitError<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    default_pool().spawn(task)
}

/// Like [`spawn`], but returns an error at a full pool: see [`Pool::try_spawn`](crate::Pool::try_spawn).
pub fn try_spawn<F, T>(task: F) -> Result<JoinHandle<T>, SubmitError<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    default_pool().try_spawn(task)
}

/// Returns a builder of a task with options (a name, a cancel token, a latest start) for the default pool. See
/// [`TaskBuilder`].
///
/// ```
/// let token = anthill::CancelToken::new();
/// let task = anthill::task().name("import").cancelled_by(&token).spawn(|| {
///     let current = anthill::current();
///     (0..100).take_while(|_| !current.is_cancelled()).count()
/// })?;
/// assert_eq!(task.join()?, 100);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub fn task() -> TaskBuilder<'static, Pool> {
    default_pool().task()
}

/// Maps an iterator on the default pool, in order. See [`PoolExt::map`](crate::PoolExt::map).
///
/// ```
/// let lengths: Result<Vec<usize>, _> = anthill::map(["one", "three"], str::len).collect();
/// assert_eq!(lengths?, [3, 5]);
/// # Ok::<(), anthill::MapError>(())
/// ```
pub fn map<I, F, T>(items: I, map: F) -> Map<I::IntoIter, T>
where
    I: IntoIterator<Item: Send + 'static>,
    F: Fn(I::Item) -> T + Send + Sync + 'static,
    T: Send + 'static,
{
    default_pool().map(items, map)
}

/// Like [`map`], but returns each result as soon as it is ready. See
/// [`PoolExt::map_unordered`](crate::PoolExt::map_unordered).
pub fn map_unordered<I, F, T>(items: I, map: F) -> Map<I::IntoIter, T>
where
    I: IntoIterator<Item: Send + 'static>,
    F: Fn(I::Item) -> T + Send + Sync + 'static,
    T: Send + 'static,
{
    default_pool().map_unordered(items, map)
}

/// Like [`map`], for a function that returns a `Result`. See [`PoolExt::try_map`](crate::PoolExt::try_map).
pub fn try_map<I, F, T, E>(items: I, map: F) -> Map<I::IntoIter, T, E>
where
    I: IntoIterator<Item: Send + 'static>,
    F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    default_pool().try_map(items, map)
}

/// Calls a function with each item of an iterator, on the default pool. See
/// [`PoolExt::for_each`](crate::PoolExt::for_each).
pub fn for_each<I, F>(items: I, call: F) -> Result<(), MapError>
where
    I: IntoIterator<Item: Send + 'static>,
    F: Fn(I::Item) + Send + Sync + 'static,
{
    default_pool().for_each(items, call)
}

/// Like [`for_each`], for a function that returns a `Result`. See
/// [`PoolExt::try_for_each`](crate::PoolExt::try_for_each).
pub fn try_for_each<I, F, E>(items: I, call: F) -> Result<(), MapError<E>>
where
    I: IntoIterator<Item: Send + 'static>,
    F: Fn(I::Item) -> Result<(), E> + Send + Sync + 'static,
    E: Send + 'static,
{
    default_pool().try_for_each(items, call)
}

/// Runs tasks that borrow, on the default pool. See [`PoolExt::scope`](crate::PoolExt::scope).
///
/// ```
/// let mut numbers = [3, 1, 2];
/// anthill::scope(|scope| scope.submit(|| numbers.sort_unstable()));
/// assert_eq!(numbers, [1, 2, 3]);
/// ```
pub fn scope<'env, F, T>(body: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    default_pool().scope(body)
}

/// Async version of [`spawn`]. The returned handle is itself a future. See
/// [`Pool::spawn_async`](crate::Pool::spawn_async).
///
/// ```
/// # testkit::block_on(async {
/// let answer = anthill::spawn_async(|| 6 * 7).await?;
/// assert_eq!(answer.await?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn spawn_async<F, T>(
    task: F,
) -> impl Future<Output = Result<JoinHandle<T>, SubmitError<F>>> + Send + Unpin + use<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    default_pool().spawn_async(task)
}

/// Returns the number of live workers of the default pool, including idle ones.
#[doc(alias = "Running")]
pub fn running() -> usize {
    default_pool().running()
}

/// Returns the number of workers that the default pool could still start; `None` if it is unlimited.
#[doc(alias = "Free")]
pub fn free() -> Option<usize> {
    default_pool().free()
}

/// Returns the number of threads and futures that wait for room in the default pool.
#[doc(alias = "Waiting")]
pub fn waiting() -> usize {
    default_pool().waiting()
}

/// Returns the capacity of the default pool.
#[doc(alias = "Cap")]
pub fn capacity() -> Capacity {
    default_pool().capacity()
}

/// Returns a snapshot of the default pool's statistics.
pub fn stats() -> Stats {
    default_pool().stats()
}

/// Changes the default pool's capacity. See [`WorkerPool::tune`](crate::WorkerPool::tune).
#[doc(alias = "Tune")]
pub fn tune(capacity: impl Into<Capacity>) -> Result<(), TuneError> {
    default_pool().tune(capacity)
}

/// Blocks until the default pool has no task in flight. See
/// [`WorkerPool::wait_idle`](crate::WorkerPool::wait_idle).
pub fn wait_idle() -> Result<(), WaitError> {
    default_pool().wait_idle()
}

/// Releases the default pool, which accepts no tasks until [`reboot`]. Returns `false` if it was already
/// released. Does not block. See [`WorkerPool::release`](crate::WorkerPool::release).
#[doc(alias = "Release")]
pub fn release() -> bool {
    default_pool().release()
}

/// Releases the default pool and waits for its end, for at most `timeout`. See
/// [`WorkerPool::release_timeout`](crate::WorkerPool::release_timeout).
#[doc(alias = "ReleaseTimeout")]
pub fn release_timeout(timeout: Duration) -> Result<(), WaitError> {
    default_pool().release_timeout(timeout)
}

/// Blocks until the default pool is released and all worker threads have ended.
/// See [`WorkerPool::wait_released`](crate::WorkerPool::wait_released).
pub fn wait_released() -> Result<(), WaitError> {
    default_pool().wait_released()
}

/// Reopens the released default pool. Returns `false` if it was open.
#[doc(alias = "Reboot")]
pub fn reboot() -> bool {
    default_pool().reboot()
}

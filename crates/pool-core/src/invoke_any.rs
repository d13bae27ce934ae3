//! The first success of several tasks, which are a group: the rest is cancelled with it.

use std::future::Future;

use crate::config::OnFull;
use crate::error::{MapError, SubmitError};
use crate::map::Host;
use crate::pool::WorkerPool;
use crate::task::closures::Closures;
use crate::task::promise::Joined;
use crate::task_group::{TaskGroup, judge};

/// The value of the first of these that succeeds; see [`WorkerPool::invoke_any`].
///
/// # Errors
/// The last error, if none succeeds; or why one was refused.
pub fn invoke_any<P, I, F, T, E>(host: &P, tasks: I) -> Result<Option<T>, MapError<E>>
where
    P: Host,
    I: IntoIterator<Item = F>,
    F: FnOnce() -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let (group, mut tries) = (TaskGroup::of(host), Tries(None));
    for task in tasks {
        if let Err(refused) = group.spawn_with(task, OnFull::Wait(None)) {
            tries.refused(refused);
            break;
        }
        if let Some(value) = tries.success_among(&group) {
            return Ok(Some(value));
        }
    }
    while let Some(ended) = group.next() {
        if let Some(value) = tries.success(ended) {
            return Ok(Some(value));
        }
    }
    tries.outcome()
}

/// Tasks of which one is to succeed: the last error.
struct Tries<E>(Option<MapError<E>>);

impl<E: Send + 'static> Tries<E> {
    fn refused<F>(&mut self, refused: SubmitError<F>) {
        self.0 = Some(MapError::Refused(refused.without_task()));
    }

    fn success<T>(&mut self, ended: Joined<Result<T, E>>) -> Option<T> {
        judge(ended).map_err(|error| self.0 = Some(error)).ok()
    }

    /// Of what has ended: enough are on their way if one has succeeded.
    fn success_among<T, P>(&mut self, group: &TaskGroup<Result<T, E>, P>) -> Option<T>
    where
        T: Send + 'static,
        P: Host,
    {
        self.success(group.try_next()?)
    }

    /// None has succeeded.
    fn outcome<T>(self) -> Result<Option<T>, MapError<E>> {
        self.0.map_or(Ok(None), Err)
    }
}

/// As [`invoke_any`], as a future.
///
/// # Errors
/// Those.
pub async fn invoke_any_async<P, I, F, T, E>(host: P, tasks: I) -> Result<Option<T>, MapError<E>>
where
    P: Host,
    I: IntoIterator<Item = F>,
    F: FnOnce() -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let (group, mut tries) = (TaskGroup::of(&host), Tries(None));
    for task in tasks {
        if let Err(refused) = group.spawn_async(task).await {
            tries.refused(refused);
            break;
        }
        if let Some(value) = tries.success_among(&group) {
            return Ok(Some(value));
        }
    }
    while let Some(ended) = group.next_async().await {
        if let Some(value) = tries.success(ended) {
            return Ok(Some(value));
        }
    }
    tries.outcome()
}

/// One success of several tasks.
impl WorkerPool<Closures> {
    /// Blocks until one of these tasks succeeds: its value. Those that have not started then are
    /// cancelled, those that run are not interrupted. `None` if there are no tasks.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let tries = ["no", "7", "also no"].map(|text| move || text.parse::<u32>());
    /// assert_eq!(pool.invoke_any(tries)?, Some(7));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// With anyhow, or a boxed error, [`MapError::into_error`] precedes the `?`:
    ///
    /// ```
    /// use pool_core::{MapError, Pool};
    ///
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let mirrors = ["no such file", "Cargo.toml"].map(|path| move || anyhow::Ok(std::fs::read(path)?));
    /// let bytes = pool.invoke_any(mirrors).map_err(MapError::into_error)?;
    /// assert!(bytes.is_some());
    /// # anyhow::Ok(())
    /// ```
    ///
    /// # Errors
    /// The last error, if none succeeds; or why the pool refused one. From Java's
    /// `ExecutorService.invokeAny`.
    #[doc(alias = "invokeAny")]
    #[doc(alias = "select_ok")]
    pub fn invoke_any<I, F, T, E>(&self, tasks: I) -> Result<Option<T>, MapError<E>>
    where
        I: IntoIterator<Item = F>,
        F: FnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self::invoke_any(self, tasks)
    }

    /// As [`invoke_any`](Self::invoke_any), as a future. Dropped, it cancels what has not started.
    ///
    /// # Errors
    /// As [`invoke_any`](Self::invoke_any).
    pub fn invoke_any_async<I, F, T, E>(
        &self,
        tasks: I,
    ) -> impl Future<Output = Result<Option<T>, MapError<E>>> + use<I, F, T, E>
    where
        I: IntoIterator<Item = F>,
        F: FnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self::invoke_any_async(self.clone(), tasks)
    }
}

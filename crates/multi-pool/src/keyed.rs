//! Tasks with keys on a multi-pool. Each key belongs to one of the pools.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use pool_core::{JoinHandle, Keyed, SubmitError, Timeout};

use crate::multi::{MultiPool, MultiPoolExt};

/// Runs the tasks of each key in order and one at a time, like [`Keyed`], with the keys spread over the
/// pools. Returned by [`MultiPoolExt::keyed`].
///
/// ```
/// use multi_pool::{MultiPool, MultiPoolExt};
/// use pool_core::Pool;
///
/// let each = Pool::builder().capacity(2).queue_depth(100);
/// let accounts = MultiPool::builder(each).pools(4).build()?.keyed();
/// for amount in [1, 2, 3] {
///     accounts.submit("ann", move || println!("ann: {amount}"))?; // One after the other.
///     accounts.submit("bob", move || println!("bob: {amount}"))?;
/// }
/// let last = accounts.spawn("ann", || "all of ann's are done")?;
/// assert_eq!(last.join()?, "all of ann's are done");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The hash of a key selects its pool; the strategy is not used. The tasks of a key wait for room in that
/// pool even while another pool has room, because they have to stay in order.
///
/// Clones share the keys. Each clone keeps the multi-pool open.
pub struct MultiKeyed<K, S = RandomState> {
    /// Declared first, so that it is dropped before the handles of single pools.
    pool: MultiPool,
    each: Arc<[Keyed<K, S>]>,
    hasher: S,
}

impl<K: Hash + Eq + Send + 'static, S: BuildHasher + Clone> MultiKeyed<K, S> {
    /// Like [`MultiPoolExt::keyed`], with another hasher.
    pub fn with_hasher(pool: &MultiPool, hasher: S) -> Self {
        let each = pool.members().iter();
        let each = each.map(|member| Keyed::with_hasher(&pool.member(member), hasher.clone()));
        Self {
            pool: pool.clone(),
            each: each.collect(),
            hasher,
        }
    }

    /// Sets the most tasks of a key that run at the same time. The default is 1. See [`Keyed::limit`].
    ///
    /// ```
    /// use multi_pool::{MultiPool, MultiPoolExt};
    /// use pool_core::Pool;
    ///
    /// let each = Pool::builder().capacity(4).queue_depth(100);
    /// let hosts = MultiPool::builder(each).pools(2).build()?.keyed().limit(2);
    /// hosts.submit("example.org", || println!("fetch a page"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "returns a `MultiKeyed` with the limit, and changes none"]
    pub fn limit(self, tasks: u32) -> Self {
        let each = self.each.iter().map(|keyed| keyed.clone().limit(tasks));
        Self {
            each: each.collect(),
            ..self
        }
    }

    /// Returns the multi-pool.
    pub fn pool(&self) -> &MultiPool {
        &self.pool
    }

    /// Returns the number of keys with a task that has not ended.
    pub fn keys(&self) -> usize {
        self.each.iter().map(Keyed::keys).sum()
    }

    /// Returns the [`Keyed`] of the pool to which `key` belongs.
    ///
    /// Use it for this key only: tasks of another key would run at the same time as those that are submitted
    /// to that key's own pool. A clone of the returned value does not keep the multi-pool open.
    pub fn of(&self, key: &K) -> &Keyed<K, S> {
        // The middle bits, because `Keyed` uses the lowest, the highest and the upper half of the same hash.
        let [_, _, low, high, ..] = self.hasher.hash_one(key).to_le_bytes();
        let bits = u16::from_le_bytes([low, high]);
        &self.each[usize::from(bits) % self.each.len()]
    }

    /// Submits a task without a handle, after the earlier tasks of its key: see [`Keyed::submit`].
    ///
    /// # Errors
    /// Returns key and task: see [`SubmitError`].
    pub fn submit<F, T>(&self, key: K, task: F) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).submit(key, task)
    }

    /// Like [`submit`](Self::submit), but returns an error if the key's pool is full.
    ///
    /// # Errors
    /// Returns key and task: see [`SubmitError`].
    pub fn try_submit<F, T>(&self, key: K, task: F) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).try_submit(key, task)
    }

    /// Like [`submit`](Self::submit), but waits for room at most for a duration, or until an instant.
    ///
    /// # Errors
    /// Returns key and task: see [`SubmitError`].
    pub fn submit_timeout<F, T>(
        &self,
        key: K,
        task: F,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).submit_timeout(key, task, timeout)
    }

    /// Async version of [`submit`](Self::submit): see [`Keyed::submit_async`].
    ///
    /// # Errors
    /// Returns key and task: see [`SubmitError`].
    pub fn submit_async<F, T>(
        &self,
        key: K,
        task: F,
    ) -> impl Future<Output = Result<(), SubmitError<(K, F)>>> + Send + use<F, T, K, S>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).submit_async(key, task)
    }

    /// Submits a task after the earlier tasks of its key, and returns a handle to its value: see
    /// [`Keyed::spawn`].
    ///
    /// # Errors
    /// Returns key and task: see [`SubmitError`].
    pub fn spawn<F, T>(&self, key: K, task: F) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).spawn(key, task)
    }

    /// Like [`spawn`](Self::spawn), but returns an error if the key's pool is full.
    ///
    /// # Errors
    /// Returns key and task: see [`SubmitError`].
    pub fn try_spawn<F, T>(&self, key: K, task: F) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).try_spawn(key, task)
    }

    /// Like [`spawn`](Self::spawn), but waits for room at most for a duration, or until an instant.
    ///
    /// # Errors
    /// Returns key and task: see [`SubmitError`].
    pub fn spawn_timeout<F, T>(
        &self,
        key: K,
        task: F,
        timeout: impl Into<Timeout>,
    ) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).spawn_timeout(key, task, timeout)
    }

    /// Async version of [`spawn`](Self::spawn): see [`Keyed::spawn_async`].
    ///
    /// # Errors
    /// Returns key and task: see [`SubmitError`].
    pub fn spawn_async<F, T>(
        &self,
        key: K,
        task: F,
    ) -> impl Future<Output = Result<JoinHandle<T>, SubmitError<(K, F)>>> + Send + use<F, T, K, S>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).spawn_async(key, task)
    }
}

impl<K, S: Clone> Clone for MultiKeyed<K, S> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            each: Arc::clone(&self.each),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K, S> fmt::Debug for MultiKeyed<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiKeyed")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

//! Tasks with keys on a multi-pool: each key has its place in one of the pools.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use pool_core::{JoinHandle, Keyed, SubmitError, Timeout};

use crate::multi::{MultiPool, MultiPoolExt};

/// Runs the tasks of one key in their order and one at a time, as [`Keyed`] does; the keys are spread
/// over the pools. Made by [`MultiPool::keyed`].
///
/// ```
/// use multi_pool::MultiPool;
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
/// A key's hash says which pool it is, and no strategy is asked: a key's tasks find room in that pool or
/// wait for it, also while another has some. (What has to come after another task cannot go where there
/// happens to be room.) All else is as with one pool's [`Keyed`].
///
/// A handle: clones have the same keys. It keeps the multi-pool open.
pub struct MultiKeyed<K, S = RandomState> {
    /// Before the others: it is to be the last handle of the pools that releases them.
    pool: MultiPool,
    each: Arc<[Keyed<K, S>]>,
    hasher: S,
}

impl<K: Hash + Eq + Send + 'static, S: BuildHasher + Clone> MultiKeyed<K, S> {
    /// As [`MultiPool::keyed`], with another hasher.
    pub fn with_hasher(pool: &MultiPool, hasher: S) -> Self {
        let each = pool.members().iter();
        let each = each.map(|member| Keyed::with_hasher(&pool.member(member), hasher.clone()));
        Self {
            pool: pool.clone(),
            each: each.collect(),
            hasher,
        }
    }

    /// Lets up to this many tasks of a key run at the same time, 1 by default: see [`Keyed::limit`].
    ///
    /// ```
    /// use multi_pool::MultiPool;
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

    /// The pools that run the tasks.
    pub fn pool(&self) -> &MultiPool {
        &self.pool
    }

    /// Keys with a task that has not ended.
    pub fn keys(&self) -> usize {
        self.each.iter().map(Keyed::keys).sum()
    }

    /// Where the tasks of that key go. It is to be given that very key: another one's tasks would run here
    /// beside those that go where they belong. A clone of it keeps the multi-pool from nothing.
    pub fn of(&self, key: &K) -> &Keyed<K, S> {
        // Bits of the middle: a set of lanes goes by the lowest, the highest and the upper half.
        let [_, _, low, high, ..] = self.hasher.hash_one(key).to_le_bytes();
        let bits = u16::from_le_bytes([low, high]);
        &self.each[usize::from(bits) % self.each.len()]
    }

    /// Hands a task over, to be run and forgotten, after those of its key: see [`Keyed::submit`].
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
    pub fn submit<F, T>(&self, key: K, task: F) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).submit(key, task)
    }

    /// As [`submit`](Self::submit), but refuses if the key's pool is full.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
    pub fn try_submit<F, T>(&self, key: K, task: F) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).try_submit(key, task)
    }

    /// As [`submit`](Self::submit), but waits for room at most that long, or until that instant.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
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

    /// As [`submit`](Self::submit), as a future: see [`Keyed::submit_async`].
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
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

    /// Hands a task over, after those of its key, and returns a handle to its value: see
    /// [`Keyed::spawn`].
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
    pub fn spawn<F, T>(&self, key: K, task: F) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).spawn(key, task)
    }

    /// As [`spawn`](Self::spawn), but refuses if the key's pool is full.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
    pub fn try_spawn<F, T>(&self, key: K, task: F) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.of(&key).try_spawn(key, task)
    }

    /// As [`spawn`](Self::spawn), but waits for room at most that long, or until that instant.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
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

    /// As [`spawn`](Self::spawn), as a future: see [`Keyed::spawn_async`].
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
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

//! Mapping iterators over several pools, groups and scopes.

use pool_core::internals::{self, Order};
use pool_core::{Map, MapError, Scope, TaskGroup};

use crate::closures::MultiPool;

/// Mapping iterators, groups and scopes. Each call does what [`Pool`](pool_core::Pool)'s of the same name does, on the
/// workers of all pools. Mappings and scopes submit to each pool by themselves, and ask the strategy only while a
/// mapping waits for room in any of them.
impl MultiPool {
    /// Calls `map` with each item and gives the results in the items' order: see
    /// [`Pool::map`](pool_core::WorkerPool::map).
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pools = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// let squares: Result<Vec<u64>, _> = pools.map(1..=100, |n| n * n).collect();
    /// assert_eq!(squares?.iter().sum::<u64>(), 338_350);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn map<I, F, T>(&self, items: I, map: F) -> Map<I::IntoIter, T>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> T + Send + Sync + 'static,
        T: Send + 'static,
    {
        internals::map(self, Order::Ordered, false, items, move |item| {
            Ok(map(item))
        })
    }

    /// As [`map`](Self::map), but gives the results as they come.
    pub fn map_unordered<I, F, T>(&self, items: I, map: F) -> Map<I::IntoIter, T>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> T + Send + Sync + 'static,
        T: Send + 'static,
    {
        internals::map(self, Order::Unordered, false, items, move |item| {
            Ok(map(item))
        })
    }

    /// As [`map`](Self::map), with a function that may fail: see
    /// [`Pool::try_map`](pool_core::WorkerPool::try_map).
    pub fn try_map<I, F, T, E>(&self, items: I, map: F) -> Map<I::IntoIter, T, E>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        internals::map(self, Order::Ordered, true, items, map)
    }

    /// As [`try_map`](Self::try_map), but gives the results as they come.
    pub fn try_map_unordered<I, F, T, E>(&self, items: I, map: F) -> Map<I::IntoIter, T, E>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        internals::map(self, Order::Unordered, true, items, map)
    }

    /// Calls `call` with each item and returns when all calls have ended: see
    /// [`Pool::for_each`](pool_core::WorkerPool::for_each).
    ///
    /// # Errors
    /// The first panic, or why the pools refused to go on.
    pub fn for_each<I, F>(&self, items: I, call: F) -> Result<(), MapError>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) + Send + Sync + 'static,
    {
        internals::for_each(self, items, move |item| {
            call(item);
            Ok(())
        })
    }

    /// As [`for_each`](Self::for_each), with a function that may fail.
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// use pool_core::MapError;
    ///
    /// let check = |path| std::fs::metadata(path).map(drop);
    /// let missing = pool.try_for_each(["Cargo.toml", "no such file"], check);
    /// assert!(matches!(missing, Err(MapError::Failed(_))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The first error. Nothing starts after it, and it is returned when what ran has ended.
    pub fn try_for_each<I, F, E>(&self, items: I, call: F) -> Result<(), MapError<E>>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> Result<(), E> + Send + Sync + 'static,
        E: Send + 'static,
    {
        internals::for_each(self, items, call)
    }

    /// An empty group of tasks: see [`Pool::group`](pool_core::WorkerPool::group).
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// let group = pool.group();
    /// group.spawn(|| "one".len())?;
    /// group.spawn(|| "three".len())?;
    /// let mut sum = 0;
    /// while let Some(length) = group.next() { // As they end, in whichever pool.
    ///     sum += length?;
    /// }
    /// assert_eq!(sum, 8);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn group<T: Send + 'static>(&self) -> TaskGroup<T, Self> {
        TaskGroup::of(self)
    }

    /// Runs tasks until one of them succeeds: see
    /// [`Pool::invoke_any`](pool_core::WorkerPool::invoke_any).
    ///
    /// # Errors
    /// The last error, if none succeeds; or why the pools refused one.
    pub fn invoke_any<I, F, T, E>(&self, tasks: I) -> Result<Option<T>, MapError<E>>
    where
        I: IntoIterator<Item = F>,
        F: FnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        internals::invoke_any(self, tasks)
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
        internals::invoke_any_async(self.clone(), tasks)
    }

    /// Runs `body`, which may hand over tasks that borrow, and returns when all of them have ended:
    /// see [`Pool::scope`](pool_core::WorkerPool::scope).
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// let mut halves = [vec![3, 1], vec![4, 2]];
    /// pool.scope(|scope| {
    ///     for half in &mut halves {
    ///         scope.submit(|| half.sort_unstable());
    ///     }
    /// }); // All have ended.
    /// assert_eq!(halves, [[1, 3], [2, 4]]);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Panics
    /// With the panic of `body`, or of a task that was submitted.
    pub fn scope<'env, F, T>(&'env self, body: F) -> T
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    {
        internals::scope(self, body)
    }
}

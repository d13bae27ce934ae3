//! [`PoolExt`], the extension trait with all calls of this crate.

use std::future::Future;
use std::hash::{Hash, RandomState};

use pool_core::Closures;
use pool_core::internals::AdmitHandle;

use crate::MapError;
use crate::keyed::Keyed;
use crate::map::{Map, Order};
use crate::scope::Scope;
use crate::task_group::TaskGroup;

/// Parallel maps, scoped tasks, task groups, keyed tasks and first success, for every pool that runs
/// closures: [`Pool`](pool_core::Pool) and `multi_pool::MultiPool`.
///
/// Bring it into scope with `use pool_util::PoolExt;` (or `use pool_util::prelude::*;`).
pub trait PoolExt: AdmitHandle<Runner = Closures> + Clone + Send + Sync + 'static {
    /// Maps an iterator on the pool's workers. Returns an iterator over the results, in the order of the
    /// items.
    ///
    /// The mapping is lazy. `next` pulls and starts items, at most a [window](Map::window) of them ahead of
    /// the results, so the source may be endless and its items large. The source is pulled on the calling
    /// thread: it may borrow, and it may block. If the operating system refuses to start the first
    /// thread, the calling thread runs the items.
    ///
    /// The number of items that run at a time is at most the number of the pool's workers, and follows
    /// [`tune`](pool_core::WorkerPool::tune) from the end of the next item. Items that compute run on about as many workers as
    /// the machine has cores. If some of the workers are seen asleep, after a millisecond or more, others begin, at most as
    /// many as there are; and one if no item has ended for 64 ms, or twice as long for each further one. Only Linux says
    /// whether a thread sleeps; elsewhere each seems to.
    ///
    /// Other tasks of the pool get a worker within a millisecond plus the length of one item.
    ///
    /// # Errors
    /// The result of an item that panics is [`MapError::Panicked`]; the mapping continues. If the pool is
    /// released, the last result is [`MapError::Refused`].
    ///
    /// # Cost
    /// Two short sections of a lock per item, plus the wake-ups of the caller, and an allocation for an item of more
    /// than 56 bytes. Items should take a
    /// microsecond or more. rayon's `par_bridge` costs about the same, but is neither lazy nor ordered nor
    /// bounded. pariter's `parallel_map` starts threads of its own.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(4).build()?;
    /// let squares: Result<Vec<u64>, _> = pool.map(1..=100, |n| n * n).collect();
    /// assert_eq!(squares?.iter().sum::<u64>(), 338_350);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "par_iter")]
    #[doc(alias = "par_bridge")]
    #[doc(alias = "parallel_map")]
    #[doc(alias = "buffered")]
    #[doc(alias = "imap")]
    fn map<I, F, T>(&self, items: I, map: F) -> Map<I::IntoIter, T>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> T + Send + Sync + 'static,
        T: Send + 'static,
    {
        crate::map::map(self, Order::Ordered, false, items, move |item| {
            Ok(map(item))
        })
    }

    /// Like [`map`](Self::map), but returns each result as soon as it is ready.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let mut squares: Vec<u64> =
    ///     pool.map_unordered(1..=3, |n| n * n).collect::<Result<_, _>>()?;
    /// squares.sort_unstable(); // The order of the results is not defined.
    /// assert_eq!(squares, [1, 4, 9]);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "buffer_unordered")]
    #[doc(alias = "imap_unordered")]
    fn map_unordered<I, F, T>(&self, items: I, map: F) -> Map<I::IntoIter, T>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> T + Send + Sync + 'static,
        T: Send + 'static,
    {
        crate::map::map(self, Order::Unordered, false, items, move |item| {
            Ok(map(item))
        })
    }

    /// Like [`map`](Self::map), for a function that returns a `Result`. The first error or panic stops the
    /// mapping.
    ///
    /// The iterator returns the results of the items before the failed one, then the error, then `None`.
    /// Running calls finish. Items that were pulled and have not started are dropped, and the source is
    /// not pulled again.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let mut lines = ["1", "2", "three", "4"].into_iter();
    /// let numbers: Result<Vec<i32>, _> = pool.try_map(&mut lines, |line| line.parse()).collect();
    /// assert!(numbers.is_err());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// For `anyhow::Error` and boxed errors, call [`MapError::into_error`] before the `?`:
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::{MapError, PoolExt};
    ///
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// for size in pool.try_map(["Cargo.toml"], |path| anyhow::Ok(std::fs::metadata(path)?.len())) {
    ///     println!("{} bytes", size.map_err(MapError::into_error)?);
    /// }
    /// # anyhow::Ok(())
    /// ```
    fn try_map<I, F, T, E>(&self, items: I, map: F) -> Map<I::IntoIter, T, E>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        crate::map::map(self, Order::Ordered, true, items, map)
    }

    /// Like [`try_map`](Self::try_map), but returns each result as soon as it is ready.
    fn try_map_unordered<I, F, T, E>(&self, items: I, map: F) -> Map<I::IntoIter, T, E>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        crate::map::map(self, Order::Unordered, true, items, map)
    }

    /// Calls `call` with each item on the pool's workers. Blocks until all calls have ended.
    ///
    /// The source is pulled lazily, as by [`map`](Self::map).
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let pool = Pool::builder().capacity(4).build()?;
    /// let sum = Arc::new(AtomicU64::new(0));
    /// let shared = Arc::clone(&sum);
    /// pool.for_each(1..=100, move |n| _ = shared.fetch_add(n, Ordering::Relaxed))?;
    /// assert_eq!(sum.load(Ordering::Relaxed), 5050);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The first panic, or the pool's refusal. No item starts after it. The call returns when the running
    /// calls have ended.
    fn for_each<I, F>(&self, items: I, call: F) -> Result<(), MapError>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) + Send + Sync + 'static,
    {
        crate::map::for_each(self, items, move |item| {
            call(item);
            Ok(())
        })
    }

    /// Like [`for_each`](Self::for_each), for a function that returns a `Result`.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::{MapError, PoolExt};
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// pool.try_for_each(["Cargo.toml"], |path| {
    ///     println!("{} bytes", std::fs::metadata(path)?.len());
    ///     anyhow::Ok(())
    /// })
    /// .map_err(MapError::into_error)?; // `anyhow::Error`, or a boxed error.
    /// # anyhow::Ok(())
    /// ```
    ///
    /// # Errors
    /// The first error or panic, or the pool's refusal. No item starts after it. The call returns when the
    /// running calls have ended.
    fn try_for_each<I, F, E>(&self, items: I, call: F) -> Result<(), MapError<E>>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> Result<(), E> + Send + Sync + 'static,
        E: Send + 'static,
    {
        crate::map::for_each(self, items, call)
    }

    /// Runs `body` with a [`Scope`], whose tasks may borrow data that outlives the call. Returns when all
    /// of the scope's tasks have ended, even if `body` panics.
    ///
    /// While it waits, the calling thread runs tasks of the scope that have not started, and no other
    /// tasks. So a scope needs no free worker: scopes may be nested and used inside tasks. If the pool is
    /// full or released, or in a forked child, the calling thread runs all tasks.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(4).build()?;
    /// let mut numbers = vec![3, 1, 2, 5, 4, 6];
    /// let (left, right) = numbers.split_at_mut(3);
    /// let largest = pool.scope(|scope| {
    ///     scope.submit(|| left.sort_unstable());
    ///     let right = scope.spawn(|| {
    ///         right.sort_unstable();
    ///         right.last().copied()
    ///     });
    ///     right.join()
    /// })?;
    /// assert_eq!((largest, numbers), (Some(6), vec![1, 2, 3, 4, 5, 6]));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// A task cannot borrow a local variable of `body`:
    ///
    /// ```compile_fail,E0373
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// pool.scope(|scope| {
    ///     let local = 1;
    ///     scope.submit(|| println!("{local}"));
    /// });
    /// ```
    ///
    /// ```compile_fail,E0597
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// pool.scope(|scope| {
    ///     let local = 1;
    ///     let borrowed = &local;
    ///     scope.submit(move || println!("{borrowed}"));
    /// });
    /// ```
    ///
    /// The same holds for tasks with options, and for the function and the items of a mapping:
    ///
    /// ```compile_fail,E0597
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// pool.scope(|scope| {
    ///     let local = 1;
    ///     let borrowed = &local;
    ///     scope.task().name("named").submit(move || println!("{borrowed}"));
    /// });
    /// ```
    ///
    /// ```compile_fail,E0373
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// pool.scope(|scope| {
    ///     let local = 1;
    ///     scope.map(0..3, |n| n + local).for_each(drop);
    /// });
    /// ```
    ///
    /// ```compile_fail,E0597
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// pool.scope(|scope| {
    ///     let local = 1;
    ///     let borrowed = &local;
    ///     scope.try_map(0..3, move |n| Ok::<_, ()>(n + borrowed)).for_each(drop);
    /// });
    /// ```
    ///
    /// ```compile_fail,E0597
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// pool.scope(|scope| {
    ///     let items = vec![1, 2, 3];
    ///     scope.map(&items, |n| *n).for_each(drop);
    /// });
    /// ```
    ///
    /// The scope, its handles and its mappings cannot leave `body`:
    ///
    /// ```compile_fail,E0521
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// let mut leaked = None;
    /// pool.scope(|scope| leaked = Some(scope));
    /// ```
    ///
    /// ```compile_fail,E0521
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// let mut leaked = None;
    /// pool.scope(|scope| leaked = Some(scope.spawn(|| 1)));
    /// ```
    ///
    /// ```compile_fail,E0521
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// let mut leaked = None;
    /// pool.scope(|scope| leaked = Some(scope.map(0..3, |n| n)));
    /// ```
    ///
    /// A task has to be `Send`:
    ///
    /// ```compile_fail,E0277
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// let shared = std::rc::Rc::new(1);
    /// pool.scope(|scope| scope.submit(|| println!("{shared}")));
    /// ```
    ///
    /// Two tasks cannot borrow the same value mutably:
    ///
    /// ```compile_fail,E0499
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// let mut sum = 0;
    /// pool.scope(|scope| {
    ///     scope.submit(|| sum += 1);
    ///     scope.submit(|| sum += 2);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `body` panics, or else if a [submitted](Scope::submit) task panicked, with the first payload. The
    /// panic of a [spawned](Scope::spawn) task is returned by its handle.
    ///
    /// Modelled on [`std::thread::scope`], which has the same lifetimes, and on rayon's `scope`.
    #[doc(alias = "install")]
    fn scope<'env, F, T>(&'env self, body: F) -> T
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    {
        crate::scope::scope(self, body)
    }

    /// Returns an empty group: tasks that are waited for, joined as they end, or cancelled together.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// group.spawn(|| 1)?;
    /// group.spawn(|| 2)?;
    /// assert_eq!(group.len(), 2);
    /// group.wait()?;
    /// assert!(group.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "JoinSet")]
    fn group<T: Send + 'static>(&self) -> TaskGroup<T, Self> {
        TaskGroup::of(self)
    }

    /// Returns a handle for tasks with keys: see [`Keyed`].
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let accounts = pool.keyed::<u32>();
    /// let first = accounts.spawn(7, || "debit")?;
    /// let second = accounts.spawn(7, || "credit")?; // Not before the first has ended.
    /// accounts.submit(8, || ())?; // Another key: may run concurrently.
    /// assert_eq!((first.join()?, second.join()?), ("debit", "credit"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    fn keyed<K: Hash + Eq + Send + 'static>(&self) -> Keyed<K, RandomState, Self> {
        Keyed::with_hasher(self, RandomState::new())
    }

    /// Runs the tasks on the pool and returns the value of the first that succeeds. Returns `None` if
    /// `tasks` is empty.
    ///
    /// Blocks until then. Tasks that have not started are cancelled; running tasks are asked to stop. If the
    /// operating system refuses to start the first thread, the calling thread runs the tasks.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let tries = ["no", "7", "also no"].map(|text| move || text.parse::<u32>());
    /// assert_eq!(pool.invoke_any(tries)?, Some(7));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// For `anyhow::Error` and boxed errors, call [`MapError::into_error`] before the `?`:
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::{MapError, PoolExt};
    ///
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let mirrors = ["no such file", "Cargo.toml"].map(|path| move || anyhow::Ok(std::fs::read(path)?));
    /// let bytes = pool.invoke_any(mirrors).map_err(MapError::into_error)?;
    /// assert!(bytes.is_some());
    /// # anyhow::Ok(())
    /// ```
    ///
    /// # Errors
    /// If no task succeeds, the last error. A refusal by the pool counts as one.
    ///
    /// Modelled on Java's `ExecutorService.invokeAny`.
    #[doc(alias = "invokeAny")]
    #[doc(alias = "select_ok")]
    fn invoke_any<I, F, T, E>(&self, tasks: I) -> Result<Option<T>, MapError<E>>
    where
        I: IntoIterator<Item = F>,
        F: FnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        crate::invoke_any::invoke_any(self, tasks)
    }

    /// Async version of [`invoke_any`](Self::invoke_any). Dropping the future cancels the tasks that have
    /// not started.
    ///
    /// # Errors
    /// Those of [`invoke_any`](Self::invoke_any).
    fn invoke_any_async<I, F, T, E>(
        &self,
        tasks: I,
    ) -> impl Future<Output = Result<Option<T>, MapError<E>>> + use<Self, I, F, T, E>
    where
        I: IntoIterator<Item = F>,
        F: FnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        crate::invoke_any::invoke_any_async(self.clone(), tasks)
    }
}

impl<P> PoolExt for P where P: AdmitHandle<Runner = Closures> + Clone + Send + Sync + 'static {}

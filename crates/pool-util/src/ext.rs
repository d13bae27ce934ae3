//! The extension trait: every call that a pool gets from this crate.

use std::future::Future;

use pool_core::Closures;
use pool_core::internals::AdmitHandle;

use crate::MapError;
use crate::map::{Map, Order};
use crate::scope::Scope;
use crate::task_group::TaskGroup;

/// Parallel maps, scoped tasks, task groups and first success, for every pool that runs closures:
/// [`Pool`](pool_core::Pool) and `multi_pool::MultiPool`.
///
/// Bring it into scope with `use pool_util::PoolExt;` (or `use pool_util::prelude::*;`).
pub trait PoolExt: AdmitHandle<Runner = Closures> + Clone + Send + Sync + 'static {
    /// Calls `map` with each item, on the pool's workers, and gives the results in the items'
    /// order.
    ///
    /// Lazy: items are pulled and started as results are asked for, never more than a
    /// [window](Map::window) of them ahead, so the source may be endless, and what it gives may be
    /// large. The source is pulled on the calling thread: it may borrow, and it may block, which
    /// holds up results only where workers would run out of items. At most as many items run at a
    /// time as the pool has workers, also if that number is [tuned](pool_core::WorkerPool::tune) meanwhile; a task that
    /// waits for a worker gets one after a millisecond and the item that runs then.
    ///
    /// An item that panics gives [`MapError::Panicked`] in its place, and the others go on. If the
    /// pool refuses to go on (it was released) the last item is [`MapError::Refused`].
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
    ///
    /// Costs two short sections of a lock for each item, beside what wakes the caller: it pays for
    /// items of a microsecond and more. In the order of rayon's `par_bridge`, but lazy, ordered and
    /// bounded; as pariter's `parallel_map`, on a pool that is there already.
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

    /// As [`map`](Self::map), but gives the results as they come.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let mut squares: Vec<u64> =
    ///     pool.map_unordered(1..=3, |n| n * n).collect::<Result<_, _>>()?;
    /// squares.sort_unstable(); // They come as they are ready.
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

    /// As [`map`](Self::map), with a function that may fail. The first error, or panic, ends the
    /// mapping: the results before it come first, then the error, then `None`. What runs ends;
    /// items that were pulled and have not started are dropped, and the source is not pulled any
    /// more.
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
    /// With anyhow, or a boxed error, [`MapError::into_error`] precedes the `?`:
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

    /// As [`try_map`](Self::try_map), but gives the results as they come.
    fn try_map_unordered<I, F, T, E>(&self, items: I, map: F) -> Map<I::IntoIter, T, E>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        crate::map::map(self, Order::Unordered, true, items, map)
    }

    /// Calls `call` with each item, on the pool's workers, and returns when all calls have ended.
    /// Pulls the source as [`map`](Self::map) does.
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
    /// The first panic, or why the pool refused to go on. Nothing starts after it, and it is
    /// returned when what ran has ended.
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

    /// As [`for_each`](Self::for_each), with a function that may fail.
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
    /// The first error. Nothing starts after it, and it is returned when what ran has ended.
    fn try_for_each<I, F, E>(&self, items: I, call: F) -> Result<(), MapError<E>>
    where
        I: IntoIterator<Item: Send + 'static>,
        F: Fn(I::Item) -> Result<(), E> + Send + Sync + 'static,
        E: Send + 'static,
    {
        crate::map::for_each(self, items, call)
    }

    /// Runs `body`, which may hand over tasks that borrow what lives outside of it; returns when
    /// all of them have ended, also if `body` panics.
    ///
    /// The calling thread runs tasks of the scope that have not started while it waits, and no
    /// others. So scopes may be nested and used inside tasks, and one on a pool that is full,
    /// released or without threads, as in a forked child, runs on the calling thread alone.
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
    /// A task may not borrow what is dropped before it:
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
    /// Nor may one with options, or a mapping's function or items:
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
    /// Neither scope nor handle nor results leave it:
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
    /// What is not `Send` stays here:
    ///
    /// ```compile_fail,E0277
    /// # use pool_util::PoolExt;
    /// # let pool = pool_core::Pool::builder().capacity(1).build().unwrap();
    /// let shared = std::rc::Rc::new(1);
    /// pool.scope(|scope| scope.submit(|| println!("{shared}")));
    /// ```
    ///
    /// Two tasks do not change the same:
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
    /// With the panic of `body`; or else with the first panic of a task that was
    /// [submitted](Scope::submit). One that was [spawned](Scope::spawn) is its handle's affair.
    ///
    /// From [`std::thread::scope`], whose lifetimes these are, and rayon's `scope`.
    #[doc(alias = "install")]
    fn scope<'env, F, T>(&'env self, body: F) -> T
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    {
        crate::scope::scope(self, body)
    }

    /// An empty group, for tasks that are waited for, taken as they end, or cancelled together.
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

    /// Blocks until one of these tasks succeeds: its value. Those that have not started then are
    /// cancelled, those that run are not interrupted. `None` if there are no tasks.
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
    /// With anyhow, or a boxed error, [`MapError::into_error`] precedes the `?`:
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
    /// The last error, if none succeeds; or why the pool refused one. From Java's
    /// `ExecutorService.invokeAny`.
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

    /// As [`invoke_any`](Self::invoke_any), as a future. Dropped, it cancels what has not started.
    ///
    /// # Errors
    /// As [`invoke_any`](Self::invoke_any).
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

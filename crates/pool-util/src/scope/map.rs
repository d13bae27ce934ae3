//! Mapping an iterator in a scope.
//!
//! The caller pulls the source and fetches results, in [`ScopedMap`]'s `next`. Each item is a task of the
//! scope, whose value is the result. While `next` waits for the first result, it runs items of the same
//! mapping that have not started, and no other tasks. So only calls of `next` wait for items on this stack.
//!
//! # Invariants
//! 1. Tasks start in the order of the items: all items before a started one have started.
//! 2. The function is not called for items from `end` on. Their tasks drop them, and the scope waits for
//!    these tasks as for any other.

use std::any::type_name;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::{fmt, mem};

use pool_core::internals::Packed;
use sync_shim::atomic::AtomicU64;
use sync_shim::atomic::Ordering::Relaxed;

use super::{Scope, ScopedJoinHandle};
use crate::MapError;
use crate::map::window_of;
use crate::task_group::judge;

/// Iterator over the results of a mapping in a scope. Returned by [`Scope::map`].
///
/// [`next`](Iterator::next) pulls the source, passes the items to the pool, and waits for a result.
/// Meanwhile it calls the function with items that have not started, so one more item than the pool has
/// workers may run at a time.
///
/// Dropping the iterator cancels the items that have not started. Running calls finish before the scope
/// returns, and their values are dropped.
#[must_use = "a mapping does nothing until its results are fetched"]
pub struct ScopedMap<'scope, 'env: 'scope, I: Iterator, T, E = Infallible> {
    scope: &'scope Scope<'scope, 'env>,
    /// `None` once it has ended.
    source: Option<I>,
    pulled: u64,
    mapped: Arc<Mapped<Function<'scope, I::Item, T, E>>>,
    /// Type name of the function, for hooks.
    name: &'static str,
    /// Handles of the items whose results were not fetched.
    handles: VecDeque<ScopedJoinHandle<'scope, Result<Option<T>, E>>>,
    /// Number of handles, from the front, whose tasks are known to have started.
    started: usize,
    window: Option<usize>,
}

type Function<'scope, I, T, E> = dyn Fn(I) -> Result<T, E> + Send + Sync + 'scope;

/// State that a mapping shares with the tasks of its items.
struct Mapped<F: ?Sized> {
    /// The function is not called for items from this number on.
    end: AtomicU64,
    /// Whether an error stops the mapping.
    stops: bool,
    call: F,
}

/// Ends the mapping after an item, unless its call returns a value.
struct EndsBehind<'a> {
    end: &'a AtomicU64,
    number: u64,
}

impl Drop for EndsBehind<'_> {
    fn drop(&mut self) {
        // Relaxed: calling the function for one item more does no harm, because its result is not fetched.
        self.end.fetch_min(self.number + 1, Relaxed);
    }
}

impl<F: ?Sized> Mapped<F> {
    /// Calls the function. Returns `Ok(None)` if the mapping has ended before this item.
    fn call<I, T, E>(&self, number: u64, item: I) -> Result<Option<T>, E>
    where
        F: Fn(I) -> Result<T, E>,
    {
        if number >= self.end.load(Relaxed) {
            return Ok(None); // Relaxed, as in `EndsBehind`.
        }
        let end = &self.end;
        let ends = self.stops.then(|| EndsBehind { end, number });
        let value = (self.call)(item)?;
        mem::forget(ends);
        Ok(Some(value))
    }

    /// Ends the mapping for all items that have not started.
    fn end(&self) {
        self.end.store(0, Relaxed); // As in `EndsBehind`.
    }
}

impl<'scope, 'env, I, T, E> ScopedMap<'scope, 'env, I, T, E>
where
    I: Iterator<Item: Send + 'scope>,
    T: Send + 'scope,
    E: Send + 'scope,
{
    pub(super) fn new<F>(
        scope: &'scope Scope<'scope, 'env>,
        stops: bool,
        source: I,
        call: F,
    ) -> Self
    where
        F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'scope,
    {
        let end = AtomicU64::new(u64::MAX);
        Self {
            scope,
            source: Some(source),
            pulled: 0,
            mapped: Arc::new(Mapped { end, stops, call }),
            name: type_name::<F>(),
            handles: VecDeque::new(),
            started: 0,
            window: None,
        }
    }

    /// Sets the most items that may be pulled and not fetched, like [`Map::window`](crate::Map::window). At
    /// least 1. `next` fills the window before it waits for a result. If no worker is free for the items, it calls
    /// the function with an item before it pulls the next one, because the source may wait for the item.
    ///
    /// The default is 4 per worker, of which at most 256 count.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let words = ["a", "bb", "ccc"];
    /// let mut source = words.iter();
    /// pool.scope(|scope| {
    ///     let mut lengths = scope.map(source.by_ref(), |word| word.len()).window(2);
    ///     assert_eq!(lengths.next().transpose()?, Some(1));
    ///     Ok::<(), pool_util::MapError>(())
    /// })?;
    /// assert_eq!(source.next(), Some(&"ccc")); // It was not pulled.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn window(mut self, items: usize) -> Self {
        self.window = Some(items.max(1));
        self
    }

    // A function of its own, whose frame is gone when the item is passed on.
    fn next_item(&mut self) -> Option<Packed<I::Item>> {
        self.source.as_mut()?.next().map(Packed::new)
    }

    fn hand_over(&mut self, item: Packed<I::Item>) {
        let (mapped, number) = (Arc::clone(&self.mapped), self.pulled);
        self.pulled += 1;
        let task = move || mapped.call(number, item.into_inner());
        let record = self.scope.record();
        let handle = self.scope.spawn_as(self.name, record, task);
        self.handles.push_back(handle);
    }
}

impl<I: Iterator, T, E> ScopedMap<'_, '_, I, T, E> {
    fn current_window(&self) -> usize {
        let of_workers = || window_of(self.scope.queue.pace().1, 1);
        self.window.unwrap_or_else(of_workers)
    }

    fn is_front_finished(&self) -> bool {
        self.handles
            .front()
            .is_some_and(ScopedJoinHandle::is_finished)
    }

    /// Runs the first item that has not started. Returns `false` if there is none.
    fn help(&mut self) -> bool {
        let queue = &self.scope.queue;
        let (handles, started) = (&self.handles, &mut self.started);
        queue.help(|scoped| {
            while let Some(handle) = handles.get(*started) {
                *started += 1;
                if let Some(task) = scoped.start_that(handle.number) {
                    return Some(task);
                }
            }
            None
        })
    }

    fn stop(&mut self) {
        self.mapped.end();
        self.source = None;
        self.handles.clear();
        self.started = 0;
    }
}

impl<'scope, I, T, E> Iterator for ScopedMap<'scope, '_, I, T, E>
where
    I: Iterator<Item: Send + 'scope>,
    T: Send + 'scope,
    E: Send + 'scope,
{
    type Item = Result<T, MapError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        let window = self.current_window();
        while self.handles.len() < window && self.source.is_some() {
            // The source may wait for an item that no worker starts.
            if self.scope.queue.is_stranded() && self.help() && self.is_front_finished() {
                break; // Its result need not wait for more items.
            }
            match self.next_item() {
                Some(item) => self.hand_over(item),
                None => self.source = None,
            }
        }
        while !self.handles.is_empty() && !self.is_front_finished() && self.help() {}
        let joined = self.handles.pop_front()?.join();
        self.started = self.started.saturating_sub(1);
        // `Ok(None)` is the result of items after the end.
        let result = judge(joined).transpose()?;
        if matches!(result, Err(MapError::Refused(_))) || (self.mapped.stops && result.is_err()) {
            self.stop();
        }
        Some(result)
    }
}

/// Returns `None` for ever once it has returned `None`, or the error that stopped the mapping.
impl<'scope, I, T, E> FusedIterator for ScopedMap<'scope, '_, I, T, E>
where
    I: Iterator<Item: Send + 'scope>,
    T: Send + 'scope,
    E: Send + 'scope,
{
}

impl<I: Iterator, T, E> Drop for ScopedMap<'_, '_, I, T, E> {
    fn drop(&mut self) {
        self.mapped.end();
    }
}

impl<I: Iterator, T, E> fmt::Debug for ScopedMap<'_, '_, I, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedMap")
            .field("window", &self.current_window())
            .field("in_flight", &self.handles.len())
            .finish_non_exhaustive()
    }
}

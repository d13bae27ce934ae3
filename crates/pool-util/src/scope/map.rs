//! Mapping an iterator in a scope.
//!
//! The caller pulls the source and fetches results, in [`ScopedMap`]'s `next`. Each item is a task of
//! the scope, whose value is its result. While the owner waits for the first it runs those of its own
//! items that have not started, and no other tasks: what waits for an item on this stack is a call of
//! `next`, and nothing else.
//!
//! # Invariants
//! 1. Tasks start in the items' order, so whatever comes before an item that was begun was begun, too.
//! 2. An item from `end` on is not begun: its task drops it, and the scope waits for that as for any.

use std::any::type_name;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::{fmt, mem};

use sync_shim::atomic::AtomicU64;
use sync_shim::atomic::Ordering::Relaxed;

use super::{Scope, ScopedJoinHandle};
use crate::MapError;
use crate::map::window_of;
use crate::task_group::judge;

/// The results of a mapping in a scope, as an iterator. See [`Scope::map`].
///
/// [`next`](Iterator::next) pulls the source, hands what it gives to the pool, and waits for a
/// result. Meanwhile it calls the function itself with items that have not started: so one item more
/// than the pool has workers may run at a time.
///
/// Dropping it cancels what has not started; what runs ends before the scope returns, and its value is
/// dropped.
#[must_use = "a mapping does nothing until its results are fetched"]
pub struct ScopedMap<'scope, 'env: 'scope, I: Iterator, T, E = Infallible> {
    scope: &'scope Scope<'scope, 'env>,
    /// `None` once it has ended.
    source: Option<I>,
    /// Items that were pulled.
    pulled: u64,
    mapped: Arc<Mapped<Function<'scope, I::Item, T, E>>>,
    /// The function's, for hooks.
    name: &'static str,
    /// Of the items that were pulled and whose results were not fetched.
    handles: VecDeque<ScopedJoinHandle<'scope, Result<Option<T>, E>>>,
    /// How many of these, from the front, are known to have started.
    started: usize,
    /// `None` if it is not set.
    window: Option<usize>,
}

type Function<'scope, I, T, E> = dyn Fn(I) -> Result<T, E> + Send + Sync + 'scope;

/// What a mapping shares with its items' tasks.
struct Mapped<F: ?Sized> {
    /// The number of the first item that is not begun any more.
    end: AtomicU64,
    /// An error ends it.
    stops: bool,
    call: F,
}

/// Ends the mapping behind an item, unless its call returns a value.
struct EndsBehind<'a> {
    end: &'a AtomicU64,
    number: u64,
}

impl Drop for EndsBehind<'_> {
    fn drop(&mut self) {
        // Relaxed: one item more or less makes no difference, as its result is not asked for.
        self.end.fetch_min(self.number + 1, Relaxed);
    }
}

impl<F: ?Sized> Mapped<F> {
    /// The item's result; none if it is not begun.
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

    /// Nothing is begun any more.
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
    /// A mapping in that scope. With `stops` an error ends it.
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

    /// How many items may be pulled and not fetched, as of a pool's [`Map`](crate::Map::window): those
    /// that wait, that run, and whose results are kept. At least 1. So many are pulled before the first
    /// result is waited for.
    ///
    /// If it is not set: 4 for each worker, of which 256 count.
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
    /// assert_eq!(source.next(), Some(&"ccc")); // Not pulled: it was one ahead.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn window(mut self, items: usize) -> Self {
        self.window = Some(items.max(1));
        self
    }

    fn hand_over(&mut self, item: I::Item) {
        let (mapped, number) = (Arc::clone(&self.mapped), self.pulled);
        self.pulled += 1;
        let task = move || mapped.call(number, item);
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

    /// Calls the function with the first item that waits. `false` if there is none, or it may not be
    /// called here.
    fn help(&mut self) -> bool {
        let queue = &self.scope.queue;
        let pool = &queue.pool();
        if pool.is_own_worker() && !pool.may_nest() {
            return false;
        }
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

    /// Pulls nothing any more, and forgets what was not fetched.
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
        while self.handles.len() < window
            && let Some(source) = &mut self.source
        {
            match source.next() {
                Some(item) => self.hand_over(item),
                None => self.source = None,
            }
        }
        while !self.handles.front()?.is_finished() && self.help() {}
        let joined = self.handles.pop_front()?.join();
        self.started = self.started.saturating_sub(1);
        // Skipped is only what comes after the end.
        let result = judge(joined).transpose()?;
        if matches!(result, Err(MapError::Refused(_))) || (self.mapped.stops && result.is_err()) {
            self.stop();
        }
        Some(result)
    }
}

/// Once `None`, always `None`; and so after what stopped it.
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

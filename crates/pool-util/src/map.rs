//! Mapping an iterator on a pool.
//!
//! The caller pulls the source and fetches results, in [`Map`]'s `next`. Drain tasks of the pool
//! (`subqueue.rs`) call the function. The window bounds the number of items that were pulled and whose
//! results were not fetched, so memory does not grow with the source.
//!
//! # Invariants
//! 1. Each pulled item is pending, held by a drain task, or has a kept result; or it was dropped because
//!    the mapping stopped or its owner left.
//! 2. An ordered result lies at its item's position, counted from `head`. The owner fetches from there.
//! 3. No item starts after the mapping has stopped. The owner waits for running items unless the mapping
//!    was cancelled.

use std::any::{Any, type_name};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::iter::FusedIterator;
use std::ops::ControlFlow;
#[cfg(feature = "stream")]
use std::pin::Pin;
use std::sync::{Arc, Weak};
#[cfg(feature = "stream")]
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, mem};

use pool_core::SubmitError;
use pool_core::internals::{CarriedSpan, Packed, TaskContext};
use sync_shim::foreign::{Payload, drop_quietly};

#[cfg(feature = "stream")]
use crate::subqueue::Submission;
use crate::subqueue::{Backlog, Helps, Site, SubQueue, within};
use crate::{MapError, PoolExt};

mod results;

use results::Results;

/// Default window per worker and piece of a turn. Turns have more pieces the shorter the items are.
const PER_WORKER_AND_TURN: usize = 4;
/// Workers that count for the default window. An unlimited pool would read an endless source for ever.
const MOST_WORKERS: usize = 256;
/// Items are short if a turn has at least this many pieces.
const SHORT: usize = 8;
/// Longest delay of a result of short items.
const NAP: Duration = Duration::from_millis(1);

/// Order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The order of the items.
    Ordered,
    /// The order in which the calls end.
    Unordered,
}

/// Default window of a mapping.
pub(crate) fn window_of(workers: usize, turn: usize) -> usize {
    workers.clamp(1, MOST_WORKERS) * turn * PER_WORKER_AND_TURN
}

/// Whether to pull more items now.
enum Pulled {
    More,
    /// Results are ready, and the workers have taken all items. With a slow source, pulling more would
    /// delay these results. With short items, the workers are waiting for this thread, and each item costs
    /// a wake-up until the owner is ahead again.
    Dry,
    Enough,
}

type Fetched<T, E> = Result<T, MapError<E>>;
type Function<I, T, E> = dyn Fn(I) -> Result<T, E> + Send + Sync;
type Queue<I, T, E> = SubQueue<Mapped<I, Fetched<T, E>>>;

/// The backlog of a mapping's sub-queue.
struct Mapped<I, R> {
    pending: VecDeque<Packed<I>>,
    results: Results<R>,
    running: usize,
    /// Whether an error stops the mapping.
    stops: bool,
    stage: Stage,
    /// A result wakes the owner only if at most this many items are pending. With many short items the
    /// owner would otherwise be woken for each of them.
    wake_at: usize,
}

/// Stage of a mapping. Each stage includes the restrictions of those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    /// No more items start.
    Stopped,
    /// The owner does not wait for running items.
    Cancelled,
    /// The owner fetches no results.
    Left,
}

impl<I, R> Mapped<I, R> {
    /// Advances to `stage`. Returns the items that have not started; the caller drops them without the lock.
    fn stop(&mut self, stage: Stage) -> VecDeque<Packed<I>> {
        self.stage = self.stage.max(stage);
        mem::take(&mut self.pending)
    }
}

impl<I, T, E> Backlog for Mapped<I, Fetched<T, E>> {
    /// Packed, so that large items are not moved from frame to frame.
    type Piece = Packed<I>;
    /// Number of its place among the results.
    type Number = u64;
    type Done = Fetched<T, E>;
    type Garbage = (VecDeque<Packed<I>>, Option<Fetched<T, E>>);

    fn pending(&self) -> usize {
        self.pending.len()
    }

    fn start(&mut self) -> Option<(u64, Packed<I>)> {
        let item = self.pending.pop_front()?;
        self.running += 1;
        Some((self.results.start(), item))
    }

    fn panicked(payload: Payload, context: &TaskContext) -> Fetched<T, E> {
        context.count_panicked_piece();
        Err(MapError::Panicked(context.caught(payload)))
    }

    fn settle(&mut self, number: u64, result: Fetched<T, E>) -> Self::Garbage {
        self.running -= 1;
        let unstarted = if self.stops && result.is_err() {
            self.stop(Stage::Stopped)
        } else {
            VecDeque::new()
        };
        if self.stage == Stage::Left {
            return (unstarted, Some(result));
        }
        self.results.keep(number, result);
        (unstarted, None)
    }

    fn is_ready(&self) -> bool {
        let pending = self.pending.len();
        (self.results.is_ready() && pending <= self.wake_at)
            || self.running == 0 && pending == 0
            || self.stage >= Stage::Cancelled
    }
}

/// Iterator over the results of a mapping. Returned by [`PoolExt::map`].
///
/// [`next`](Iterator::next) pulls the source, passes the items to the pool, and blocks until a result is
/// ready. On a worker of the same pool it calls the function itself instead of waiting for another worker.
///
/// Dropping the iterator cancels the items that have not started. Running calls finish, and their values
/// are dropped on their workers.
///
/// ```
/// use pool_core::Pool;
/// use pool_util::PoolExt;
///
/// let pool = Pool::builder().capacity(2).build()?;
/// let mut lengths = pool.map(["one", "three"], str::len).window(16);
/// assert_eq!(lengths.next().transpose()?, Some(3));
/// assert_eq!(lengths.next().transpose()?, Some(5));
/// assert!(lengths.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[must_use = "a mapping does nothing until its results are fetched"]
pub struct Map<I: Iterator, T, E = Infallible> {
    /// `None` once it has ended.
    source: Option<I>,
    queue: Arc<Queue<I::Item, T, E>>,
    fetched: VecDeque<Fetched<T, E>>,
    /// Items that were pulled and whose results are not in `fetched`.
    in_flight: usize,
    window: usize,
    is_window_set: bool,
    /// Length of a turn, as last read.
    turn: usize,
    /// The pool's refusal, to be returned after the fetched results.
    refused: Option<SubmitError>,
    stops: bool,
    over: bool,
    /// `Alone` once the system has refused a thread: the caller runs all items.
    helps: Helps,
    /// A handle that keeps the pool open.
    _host: Box<dyn Any + Send>,
}

impl<I, T, E> Map<I, T, E>
where
    I: Iterator<Item: Send + 'static>,
    T: Send + 'static,
    E: Send + 'static,
{
    fn new(
        (site, host): (Site, Box<dyn Any + Send>),
        order: Order,
        stops: bool,
        source: I,
        name: &'static str,
        call: Box<Function<I::Item, T, E>>,
    ) -> Self {
        let backlog = Mapped {
            pending: VecDeque::new(),
            results: Results::new(order),
            running: 0,
            stops,
            stage: Stage::Open,
            wake_at: usize::MAX,
        };
        let span = CarriedSpan::current(site.pool().context());
        let run = move |item: Packed<I::Item>, context: &TaskContext| {
            let ran = span.execute(|| context.execute(name, || call(item.into_inner())));
            match ran {
                Ok(result) => result.map_err(MapError::Failed),
                Err(payload) => Mapped::<I::Item, Fetched<T, E>>::panicked(payload, context),
            }
        };
        let queue = SubQueue::new(site, backlog, Box::new(run));
        let (turn, workers) = queue.pace();
        Self {
            source: Some(source),
            queue,
            fetched: VecDeque::new(),
            in_flight: 0,
            window: window_of(workers, turn),
            is_window_set: false,
            turn,
            refused: None,
            stops,
            over: false,
            helps: Helps::OnWorker,
            _host: host,
        }
    }

    /// Sets the maximum number of items that were pulled and not yet returned: pending and running
    /// items, and results that were not fetched. At least 1.
    ///
    /// A larger window keeps the workers busy while the consumer is slow, and takes more memory.
    ///
    /// The default is 4 per worker, and up to 256 per worker if items take microseconds, for at most 256
    /// workers. It follows the size of the pool.
    pub fn window(mut self, items: usize) -> Self {
        self.window = items.max(1);
        self.is_window_set = true;
        self
    }

    /// Returns a handle that ends this mapping from another thread, even while [`next`](Iterator::next)
    /// blocks: for a Ctrl-C handler, for example.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let mut endless = pool.map(0_u64.., |n| n * n);
    /// let canceller = endless.canceller();
    /// assert_eq!(endless.next().transpose()?, Some(0));
    /// std::thread::spawn(move || canceller.cancel());
    /// endless.by_ref().for_each(drop);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn canceller(&self) -> MapCanceller {
        let queue = Arc::downgrade(&self.queue);
        MapCanceller(queue as _)
    }

    /// Returns the number of results that [`next`](Iterator::next) can return without waiting. A consumer
    /// that writes the results can flush when it is 0.
    pub fn ready(&self) -> usize {
        self.fetched.len()
    }

    /// With fewer items in flight, workers could run out of items while results are being fetched.
    fn low_water(&self) -> usize {
        self.window.div_ceil(2)
    }

    /// Ends the mapping and returns the items that were pulled and have not started. Does not wait for running calls, whose
    /// values are dropped.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let mut squares = pool.map(0_u64..100, |n| n * n);
    /// assert_eq!(squares.next().transpose()?, Some(0));
    /// let left: Vec<u64> = squares.into_unstarted().collect();
    /// assert!(left.len() < 100);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn into_unstarted(self) -> impl Iterator<Item = I::Item> {
        let take = |mapped: &mut Mapped<_, _>| mem::take(&mut mapped.pending);
        self.queue.look(take).into_iter().map(Packed::into_inner)
    }

    /// Converts the iterator to a stream of the results. Works under any runtime.
    ///
    /// `poll_next` pulls the source, and waits for results and for room in the pool without blocking. It
    /// calls the source's `next`, which should not block for long. On a worker of the same pool it calls the
    /// function itself, as the iterator does.
    ///
    /// ```
    /// use futures_lite::StreamExt;
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let squares = pool.map(1..=10, |n| n * n).into_stream();
    /// let sum = futures_lite::future::block_on(squares.fold(0, |sum, n| sum + n.unwrap()));
    /// assert_eq!(sum, 385);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[cfg(feature = "stream")]
    pub fn into_stream(self) -> MapStream<I, T, E> {
        MapStream {
            submission: None,
            map: self,
        }
    }

    /// Stops the mapping and waits for its running items.
    fn join(&mut self) {
        self.source = None;
        if !self.queue.process().is_current() {
            return; // The items run in the parent process only.
        }
        let unstarted = self.queue.look(|mapped| mapped.stop(Stage::Stopped));
        drop(unstarted);
        while self.fetch().is_ok_and(|in_flight| in_flight) {
            self.fetched.clear();
        }
    }

    /// Pulls items up to the window, which follows the size of the pool and the length of the items.
    fn pull_ahead(&mut self, may_block: bool) {
        let (turn, workers) = self.queue.pace();
        self.turn = turn;
        if !self.is_window_set {
            self.window = window_of(workers, turn);
        }
        let mut dry_since = None;
        let mut is_first = true;
        while self.in_flight < self.window {
            if may_block && (is_first || self.helps()) {
                self.depart();
            }
            is_first = false;
            match self.pull(may_block) {
                Pulled::More => {}
                Pulled::Dry if self.is_short() && within(NAP, &mut dry_since) => {}
                Pulled::Dry | Pulled::Enough => return,
            }
        }
    }

    /// Whether the calling thread runs items.
    fn helps(&self) -> bool {
        self.helps == Helps::Alone || self.queue.pool().is_own_worker()
    }

    /// Sees to it that the pulled items run while the source is pulled, which may wait for them.
    fn depart(&self) {
        if self.helps() {
            while self.queue.is_stranded() && self.queue.help(Backlog::start) {}
        } else if self.queue.is_deserted() && self.queue.add(|_| ()).is_err() {
            while self.queue.help(Backlog::start) {}
        }
    }

    fn is_short(&self) -> bool {
        self.turn >= SHORT
    }

    // A function of its own, whose frame is gone when the item is passed on.
    fn next_item(&mut self) -> Option<Packed<I::Item>> {
        // USER CODE: the source iterator. No lock is held. A panic is the caller's, and no result is lost.
        self.source.as_mut()?.next().map(Packed::new)
    }

    /// Pulls an item and passes it to the pool. Without `may_block` the wait for room is left to the poll
    /// for results.
    fn pull(&mut self, may_block: bool) -> Pulled {
        let Some(item) = self.next_item() else {
            self.source = None;
            return Pulled::Enough;
        };
        self.in_flight += 1;
        let is_fed = self.in_flight >= self.low_water();
        let add = |mapped: &mut Mapped<_, _>| {
            if mapped.stage >= Stage::Stopped {
                return (Some(item), Pulled::Enough);
            }
            mapped.pending.push_back(item);
            let pulled = if !mapped.results.is_ready() {
                Pulled::More
            } else if is_fed {
                Pulled::Enough
            } else if mapped.pending.len() <= 1 {
                Pulled::Dry
            } else {
                Pulled::More
            };
            (None, pulled)
        };
        let added = if self.helps == Helps::Alone {
            Ok(self.queue.look(add))
        } else if may_block {
            self.queue.add(add)
        } else {
            self.queue.offer(add)
        };
        match added {
            Ok((None, pulled)) => pulled,
            Ok((Some(unwanted), pulled)) => {
                self.source = None;
                drop(unwanted);
                pulled
            }
            // The item was added.
            Err(SubmitError::NoThread(..)) if may_block => {
                self.helps = Helps::Alone;
                Pulled::More
            }
            Err(refused) => {
                self.source = None;
                self.refused = Some(refused);
                Pulled::Enough
            }
        }
    }

    /// Waits for results and fetches them. Returns `false` if there are no more.
    fn fetch(&mut self) -> Result<bool, SubmitError> {
        let (nap, mut take) = self.fetching();
        let mut fetched = self.queue.wait(self.helps, nap, &mut take);
        if let Err(SubmitError::NoThread(..)) = fetched {
            self.helps = Helps::Alone;
            fetched = self.queue.wait(self.helps, nap, take);
        }
        fetched.map(|fetched| self.fetched(fetched))
    }

    /// Returns the owner's nap, and the function that takes results out of the backlog.
    #[expect(clippy::type_complexity, reason = "used at once")]
    fn fetching(
        &mut self,
    ) -> (
        Option<Duration>,
        impl FnMut(&mut Mapped<I::Item, Fetched<T, E>>) -> Option<VecDeque<Fetched<T, E>>>
        + use<I, T, E>,
    ) {
        let short = self.is_short();
        let wake_at = if short { self.window / 4 } else { usize::MAX };
        let mut fetched = mem::take(&mut self.fetched);
        let take = move |mapped: &mut Mapped<_, _>| {
            mapped.wake_at = wake_at;
            mapped.results.fetch(&mut fetched);
            let ended = mapped.running == 0 && mapped.pending.is_empty();
            let over = ended || mapped.stage >= Stage::Cancelled;
            (over || !fetched.is_empty()).then(|| mem::take(&mut fetched))
        };
        (short.then_some(NAP), take)
    }

    fn fetched(&mut self, fetched: VecDeque<Fetched<T, E>>) -> bool {
        self.fetched = fetched;
        self.in_flight = self.in_flight.saturating_sub(self.fetched.len());
        !self.fetched.is_empty()
    }

    /// Breaks with the value for `next` to return if the mapping is over or the process was forked.
    fn begin(&mut self) -> ControlFlow<Option<Fetched<T, E>>> {
        if self.over {
            ControlFlow::Break(None)
        } else if let Err(forked) = self.queue.pool().process().check(SubmitError::Forked(())) {
            ControlFlow::Break(Some(self.refuse(forked)))
        } else {
            ControlFlow::Continue(())
        }
    }

    /// The next fetched result, then the refusal, then `None`.
    fn give(&mut self) -> Option<Fetched<T, E>> {
        match (self.fetched.pop_front(), self.refused.take()) {
            (Some(result), refused) => {
                self.refused = refused;
                self.over = self.stops && result.is_err();
                Some(result)
            }
            (None, Some(refused)) => Some(self.refuse(refused)),
            (None, None) => {
                self.over = true;
                None
            }
        }
    }

    fn refuse(&mut self, refused: SubmitError) -> Fetched<T, E> {
        self.over = true;
        Err(MapError::Refused(refused))
    }
}

impl<I, T, E> Iterator for Map<I, T, E>
where
    I: Iterator<Item: Send + 'static>,
    T: Send + 'static,
    E: Send + 'static,
{
    type Item = Result<T, MapError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let ControlFlow::Break(over) = self.begin() {
            return over;
        }
        if self.fetched.is_empty() {
            self.pull_ahead(true);
            // Even after a refusal: items may still be running.
            if let Err(refused) = self.fetch() {
                self.refused = Some(refused);
            }
        } else if self.in_flight < self.low_water() {
            self.depart();
            self.pull(true); // Before the result is taken out, because the source may panic.
        }
        self.give()
    }
}

/// Returns `None` for ever once it has returned `None`, or the error that stopped the mapping.
impl<I, T, E> FusedIterator for Map<I, T, E>
where
    I: Iterator<Item: Send + 'static>,
    T: Send + 'static,
    E: Send + 'static,
{
}

/// Stream of the results of a mapping. Returned by [`Map::into_stream`].
#[cfg(feature = "stream")]
#[must_use = "a stream does nothing until it is polled"]
pub struct MapStream<I: Iterator, T, E = Infallible> {
    /// A drain task that waits for room. Dropped first.
    submission: Option<Submission>,
    map: Map<I, T, E>,
}

// Nothing is pinned: source and results are moved, never borrowed.
#[cfg(feature = "stream")]
impl<I: Iterator, T, E> Unpin for MapStream<I, T, E> {}

#[cfg(feature = "stream")]
impl<I, T, E> futures_core::Stream for MapStream<I, T, E>
where
    I: Iterator<Item: Send + 'static>,
    T: Send + 'static,
    E: Send + 'static,
{
    type Item = Result<T, MapError<E>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { submission, map } = &mut *self;
        if let ControlFlow::Break(over) = map.begin() {
            return Poll::Ready(over);
        }
        if map.fetched.is_empty() {
            map.pull_ahead(false);
            let (_, take) = map.fetching();
            let queue = Arc::clone(&map.queue);
            match queue.poll(submission, context, take) {
                Poll::Ready(Ok(fetched)) => _ = map.fetched(fetched),
                Poll::Ready(Err(refused)) => map.refused = Some(refused),
                Poll::Pending => return Poll::Pending,
            }
        } else if map.in_flight < map.low_water() {
            map.pull(false);
        }
        Poll::Ready(map.give())
    }
}

#[cfg(feature = "stream")]
impl<I, T, E> futures_core::stream::FusedStream for MapStream<I, T, E>
where
    I: Iterator<Item: Send + 'static>,
    T: Send + 'static,
    E: Send + 'static,
{
    fn is_terminated(&self) -> bool {
        self.map.over
    }
}

#[cfg(feature = "stream")]
impl<I: Iterator, T, E> fmt::Debug for MapStream<I, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}

impl<I: Iterator, T, E> Drop for Map<I, T, E> {
    fn drop(&mut self) {
        if !self.queue.process().is_current() {
            // A thread of the parent process may hold the lock.
            mem::forget(Arc::clone(&self.queue));
            return;
        }
        // The waker of a stream is dropped here, because an item may run for long.
        let ((pending, results), owner) = self
            .queue
            .leave(|mapped| (mapped.stop(Stage::Left), mapped.results.take_all()));
        // USER CODE: the drops of items, results and a waker. A panic would abort an owner that is unwinding.
        drop_quietly(pending);
        drop_quietly(results);
        drop_quietly(owner);
    }
}

/// Handle that ends a mapping from another thread. Returned by [`Map::canceller`].
///
/// It keeps neither the mapping's function nor its items alive.
#[derive(Clone)]
pub struct MapCanceller(Weak<dyn Cancel>);

impl MapCanceller {
    /// Ends the mapping, and drops the items that have not started on the calling thread.
    ///
    /// The iterator returns the results that are ready, then `None`. It does not wait for running calls;
    /// their values are dropped with the mapping, or later on their workers. At most one more item is
    /// pulled from the source.
    ///
    /// Never blocks. Further calls, and calls after the mapping has ended, have no effect.
    pub fn cancel(&self) {
        if let Some(mapping) = self.0.upgrade() {
            mapping.cancel();
            // USER CODE: the last reference drops the function.
            drop_quietly(mapping);
        }
    }
}

impl fmt::Debug for MapCanceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MapCanceller(..)")
    }
}

/// Type-erased mapping.
trait Cancel: Send + Sync {
    fn cancel(&self);
}

impl<I: Send + 'static, T: Send + 'static, E: Send + 'static> Cancel for Queue<I, T, E> {
    fn cancel(&self) {
        if self.process().is_current() {
            let unstarted = self.change(|mapped| mapped.stop(Stage::Cancelled));
            // USER CODE: the drop of items. After the unlock. A panic is the caller's.
            drop(unstarted);
        }
    }
}

impl<I: Iterator, T, E> fmt::Debug for Map<I, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("window", &self.window)
            .field("in_flight", &self.in_flight)
            .field("fetched", &self.fetched.len())
            .finish_non_exhaustive()
    }
}

/// See [`PoolExt::map`]. With `stops`, an error ends the mapping.
pub(crate) fn map<H: PoolExt, I, F, T, E>(
    host: &H,
    order: Order,
    stops: bool,
    items: I,
    call: F,
) -> Map<I::IntoIter, T, E>
where
    I: IntoIterator<Item: Send + 'static>,
    F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let (name, call) = (type_name::<F>(), Box::new(call));
    Map::new(place(host), order, stops, items.into_iter(), name, call)
}

fn place<H: PoolExt>(host: &H) -> (Site, Box<dyn Any + Send>) {
    (Site::of(host.admit()), Box::new(host.clone()))
}

/// See [`PoolExt::try_for_each`].
///
/// # Errors
/// The first error.
pub(crate) fn for_each<H: PoolExt, I, F, E>(host: &H, items: I, call: F) -> Result<(), MapError<E>>
where
    I: IntoIterator<Item: Send + 'static>,
    F: Fn(I::Item) -> Result<(), E> + Send + Sync + 'static,
    E: Send + 'static,
{
    let mut map = self::map(host, Order::Unordered, true, items, call);
    let failed = map.find_map(Result::err);
    map.join();
    failed.map_or(Ok(()), Err)
}

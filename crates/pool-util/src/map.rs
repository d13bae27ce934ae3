//! Mapping an iterator on a pool.
//!
//! The caller pulls the source and fetches results, in [`Map`]'s `next`; drain tasks of the pool
//! (`subqueue.rs`) call the function. What was pulled and has not been fetched is bounded by the
//! window, so memory stays flat however long the source is.
//!
//! # Invariants
//! 1. Each item that was pulled is either pending, or with a drain task, or its result is kept; or
//!    it was dropped because the mapping stopped or its owner left.
//! 2. Ordered results lie at their item's place, counted from `head`; they are fetched from there.
//! 3. Once a mapping has stopped nothing starts any more. Its owner waits for what runs, unless it
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
use pool_core::internals::{CarriedSpan, TaskContext};
use sync_shim::foreign::{Payload, drop_quietly};

#[cfg(feature = "stream")]
use crate::subqueue::Submission;
use crate::subqueue::{Backlog, Helps, Site, SubQueue, within};
use crate::{MapError, PoolExt};

mod results;

use results::Results;

/// Items that may be pulled and not fetched, for each worker, where the window is not set: so many
/// for each piece of a turn, which has the more of them the shorter items are.
const PER_WORKER_AND_TURN: usize = 4;
/// Workers that count for that. An unlimited pool would read an endless source for ever.
const MOST_WORKERS: usize = 256;
/// Items are short if a turn has as many.
const SHORT: usize = 8;
/// How late a result of short items may be.
const NAP: Duration = Duration::from_millis(1);

/// How results are fetched, and what an error does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// In the items' order.
    Ordered,
    /// As they come.
    Unordered,
}

/// The default window of a mapping on so many workers, with so many items in a turn.
pub(crate) fn window_of(workers: usize, turn: usize) -> usize {
    workers.clamp(1, MOST_WORKERS) * turn * PER_WORKER_AND_TURN
}

/// Whether more of the source is to be pulled now.
enum Pulled {
    More,
    /// Results are ready, and the workers have taken all items: if the source is slow, to pull more
    /// of it would hold up these results. If the items are short, the workers only wait for this
    /// thread, and as long as they do each item costs a wake-up.
    Dry,
    Enough,
}

type Fetched<T, E> = Result<T, MapError<E>>;
/// What a mapping calls.
type Function<I, T, E> = dyn Fn(I) -> Result<T, E> + Send + Sync;
type Queue<I, T, E> = SubQueue<Mapped<I, Fetched<T, E>>>;

/// What a mapping has in its sub-queue.
struct Mapped<I, R> {
    pending: VecDeque<I>,
    results: Results<R>,
    /// Items that drain tasks have.
    running: usize,
    /// An error stops the mapping.
    stops: bool,
    stage: Stage,
    /// The owner is woken for a result while no more items than these wait to be started: for one
    /// of many short items it would be woken again at once.
    wake_at: usize,
}

/// How far a mapping is. It goes on, never back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    /// Nothing starts any more.
    Stopped,
    /// Nor is what runs waited for.
    Cancelled,
    /// Nor is anything fetched.
    Left,
}

impl<I, R> Mapped<I, R> {
    /// Goes on to that stage, if it is not there yet. What does not start comes back.
    fn stop(&mut self, stage: Stage) -> VecDeque<I> {
        self.stage = self.stage.max(stage);
        mem::take(&mut self.pending)
    }
}

impl<I, T, E> Backlog for Mapped<I, Fetched<T, E>> {
    type Piece = I;
    /// That of its place among the results.
    type Number = u64;
    type Done = Fetched<T, E>;
    type Garbage = (VecDeque<I>, Option<Fetched<T, E>>);

    fn pending(&self) -> usize {
        self.pending.len()
    }

    fn start(&mut self) -> Option<(u64, I)> {
        let item = self.pending.pop_front()?;
        self.running += 1;
        Some((self.results.start(), item))
    }

    fn panicked(payload: Payload, context: &TaskContext) -> Fetched<T, E> {
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

/// The results of a mapping, as an iterator. See [`WorkerPool::map`].
///
/// [`next`](Iterator::next) pulls the source, hands what it gives to the pool, and blocks until a
/// result is there. On a worker of the pool it calls the function itself rather than wait for
/// another worker.
///
/// Dropping it cancels what has not started; what runs ends, and its value is dropped on its worker.
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
    /// Pulled, and not among the `fetched`.
    in_flight: usize,
    /// How many may be, and results that are kept.
    window: usize,
    is_window_set: bool,
    /// Items of a turn: the more, the shorter they are.
    turn: usize,
    /// The pool refused to go on: to be said after what was fetched.
    refused: Option<SubmitError>,
    stops: bool,
    over: bool,
    /// Keeps the pool open.
    _host: Box<dyn Any + Send>,
}

impl<I, T, E> Map<I, T, E>
where
    I: Iterator<Item: Send + 'static>,
    T: Send + 'static,
    E: Send + 'static,
{
    /// A mapping there, of a function by that name. With `stops` an error ends it.
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
        let run = move |item, context: &TaskContext| {
            let ran = span.execute(|| context.execute(name, || call(item)));
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
            _host: host,
        }
    }

    /// How many items may be pulled and not fetched: those that wait, that run, and whose results
    /// are kept. At least 1. More of them keep workers busy beside a consumer that is slow now and
    /// then, and cost their memory.
    ///
    /// If it is not set: 4 for each worker, and up to 256 where items take microseconds. It follows
    /// the pool's size; of its workers 256 count.
    pub fn window(mut self, items: usize) -> Self {
        self.window = items.max(1);
        self.is_window_set = true;
        self
    }

    /// What ends this mapping from another thread, as a handler of Ctrl-C does; also while
    /// [`next`](Iterator::next) blocks.
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

    /// How many results are fetched already: so many calls of [`next`](Iterator::next) wait for
    /// none. A consumer that writes them somewhere may flush when it is 0.
    pub fn ready(&self) -> usize {
        self.fetched.len()
    }

    /// Below this the workers might run out of items while the results are being fetched.
    fn low_water(&self) -> usize {
        self.window.div_ceil(2)
    }

    /// Ends the mapping: the items that were pulled and have not started. What runs ends, and its
    /// value is dropped.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let mut squares = pool.map(0_u64..100, |n| n * n);
    /// assert_eq!(squares.next().transpose()?, Some(0));
    /// let left: Vec<u64> = squares.into_unstarted().collect(); // Pulled ahead, and not begun.
    /// assert!(left.len() < 100);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn into_unstarted(self) -> impl Iterator<Item = I::Item> {
        let take = |mapped: &mut Mapped<_, _>| mem::take(&mut mapped.pending);
        self.queue.look(take).into_iter()
    }

    /// The results as a stream: polled, it pulls the source and waits for results, and for room in
    /// the pool, without blocking. The source's own `next` is called by the task that polls, and
    /// should not block for long. Needs no runtime.
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

    /// Waits until nothing of it runs any more.
    fn join(&mut self) {
        self.source = None;
        if !self.queue.process().is_current() {
            return; // Nothing of it runs here.
        }
        let unstarted = self.queue.look(|mapped| mapped.stop(Stage::Stopped));
        drop(unstarted);
        while self.fetch().is_ok_and(|in_flight| in_flight) {
            self.fetched.clear();
        }
    }

    /// Pulls items as far ahead as the pool's size and the items' length say now.
    fn pull_ahead(&mut self, may_block: bool) {
        let (turn, workers) = self.queue.pace();
        self.turn = turn;
        if !self.is_window_set {
            self.window = window_of(workers, turn);
        }
        let mut dry_since = None;
        while self.in_flight < self.window {
            match self.pull(may_block) {
                Pulled::More => {}
                Pulled::Dry if self.is_short() && within(NAP, &mut dry_since) => {}
                Pulled::Dry | Pulled::Enough => return,
            }
        }
    }

    /// Whether items take microseconds.
    fn is_short(&self) -> bool {
        self.turn >= SHORT
    }

    /// Pulls an item and hands it over. If it may not block, an item waits for room, if it has to, as
    /// the results are waited for.
    fn pull(&mut self, may_block: bool) -> Pulled {
        let Some(item) = self.source.as_mut().and_then(Iterator::next) else {
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
        let added = if may_block {
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
            Err(refused) => {
                self.source = None;
                self.refused = Some(refused);
                Pulled::Enough
            }
        }
    }

    /// Waits for results and fetches them. `false` if there are none to come.
    fn fetch(&mut self) -> Result<bool, SubmitError> {
        let (nap, take) = self.fetching();
        let fetched = self.queue.wait(Helps::OnWorker, nap, take)?;
        Ok(self.fetched(fetched))
    }

    /// What a look at the results takes out of them, and how long the owner sleeps at a time.
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

    /// Goes on, if the mapping is not over already; or what is given then.
    fn begin(&mut self) -> ControlFlow<Option<Fetched<T, E>>> {
        if self.over {
            ControlFlow::Break(None)
        } else if let Err(forked) = self.queue.pool().process().check(SubmitError::Forked(())) {
            ControlFlow::Break(Some(self.refuse(forked)))
        } else {
            ControlFlow::Continue(())
        }
    }

    /// A result that was fetched; or why there is none.
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

    /// The mapping is over, for this reason.
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
            // Also if the pool refuses to go on: something may run still.
            if let Err(refused) = self.fetch() {
                self.refused = Some(refused);
            }
        } else if self.in_flight < self.low_water() {
            self.pull(true); // Before the result leaves us: the source may panic.
        }
        self.give()
    }
}

/// Once `None`, always `None`; and so after what stopped it.
impl<I, T, E> FusedIterator for Map<I, T, E>
where
    I: Iterator<Item: Send + 'static>,
    T: Send + 'static,
    E: Send + 'static,
{
}

/// The results of a mapping, as a stream. See [`Map::into_stream`].
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
            // The lock may be held by a thread that is not there.
            mem::forget(Arc::clone(&self.queue));
            return;
        }
        // A stream's waker goes with it: an item may run for long.
        let ((pending, results), owner) = self
            .queue
            .leave(|mapped| (mapped.stop(Stage::Left), mapped.results.take_all()));
        // A panic of theirs would abort an owner that is unwinding.
        drop_quietly(pending);
        drop_quietly(results);
        drop_quietly(owner);
    }
}

/// Ends a mapping. See [`Map::canceller`].
///
/// It keeps nothing of the mapping alive, neither its function nor its items.
#[derive(Clone)]
pub struct MapCanceller(Weak<dyn Cancel>);

impl MapCanceller {
    /// Ends it: items that have not started are dropped, here. The mapping still gives what has
    /// come, in its order, then `None`, and waits for nothing that runs; the value of that is
    /// dropped with the mapping, or after it on its worker. The source is not pulled for more than
    /// one item.
    ///
    /// Never blocks. The second time, or when the mapping has ended, it does nothing.
    pub fn cancel(&self) {
        if let Some(mapping) = self.0.upgrade() {
            mapping.cancel();
            drop_quietly(mapping); // Perhaps the last one that has its function.
        }
    }
}

impl fmt::Debug for MapCanceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MapCanceller(..)")
    }
}

/// A mapping of whatever to whatever, to be cancelled.
trait Cancel: Send + Sync {
    fn cancel(&self);
}

impl<I: Send + 'static, T: Send + 'static, E: Send + 'static> Cancel for Queue<I, T, E> {
    fn cancel(&self) {
        if self.process().is_current() {
            let unstarted = self.change(|mapped| mapped.stop(Stage::Cancelled));
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

/// Maps an iterator on that pool. With `stops` an error ends it. Every kind of pool of closures has
/// methods that come to this; see [`WorkerPool::map`].
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

/// Where a mapping runs, and what keeps that open.
fn place<H: PoolExt>(host: &H) -> (Site, Box<dyn Any + Send>) {
    (Site::of(host.admit()), Box::new(host.clone()))
}

/// Calls a function with each item of an iterator; see [`WorkerPool::try_for_each`].
///
/// # Errors
/// The first error. Nothing starts after it, and it is returned when what ran has ended.
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

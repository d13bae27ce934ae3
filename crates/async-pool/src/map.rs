//! Maps over the items of an iterator or a stream: bounded, ordered or as completed.
//!
//! A map has no task of its own: its consumer pulls the items and takes the results. The futures run on the pool, also
//! while the consumer does not poll the map.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use pool_core::{JoinError, SubmitError};

use crate::group::Next;
use crate::task::Futures;
use crate::{AsyncPool, JoinHandle, Permit, TaskGroup};

type Joined<V> = Result<V, JoinError>;
/// Pulls an item and makes its future.
type Produce<'a, F> = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<F>> + Send + 'a>;
type WaitForRoom = Pin<Box<dyn Future<Output = Result<Permit<Futures>, SubmitError>> + Send>>;

/// Results of a map over items. Returned by [`AsyncPool::map`].
///
/// Each result is the value of a future, or the reason why there is none: the future panicked, or the pool was released.
/// Dropping the map cancels the futures that have not ended.
#[must_use = "a map starts nothing until its results are asked for"]
pub struct Map<'a, F: Future<Output: Send + 'static>> {
    pool: AsyncPool,
    limit: usize,
    /// `None` once it has ended.
    produce: Option<Produce<'a, F>>,
    window: Window<F::Output>,
    /// A wait for room that was polled before.
    room: Option<WaitForRoom>,
    /// Why the pool has refused a future. Returned after the other results.
    refused: Option<JoinError>,
}

/// The futures that were started, up to the taking of their results.
enum Window<V: Send + 'static> {
    Ordered(VecDeque<JoinHandle<V>>),
    Unordered(TaskGroup<V>, Next<V>),
}

impl<V: Send + 'static> Window<V> {
    fn len(&self) -> usize {
        match self {
            Self::Ordered(handles) => handles.len(),
            Self::Unordered(group, _) => group.len(),
        }
    }

    fn spawn(&mut self, permit: Permit<Futures>, future: impl Future<Output = V> + Send + 'static) {
        match self {
            Self::Ordered(handles) => handles.push_back(permit.spawn(future).cancel_on_drop()),
            Self::Unordered(group, _) => group.spawn_with(permit, future),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Joined<V>>> {
        match self {
            Self::Ordered(handles) => {
                let Some(first) = handles.front_mut() else {
                    return Poll::Ready(None);
                };
                let ended = Pin::new(first).poll(context);
                ended.map(|result| {
                    handles.pop_front();
                    Some(result)
                })
            }
            Self::Unordered(_, next) => Pin::new(next).poll(context),
        }
    }
}

impl AsyncPool {
    /// Maps items to futures that run in this pool, at most `limit` of them at a time. Returns the results in the order
    /// of the items.
    ///
    /// The consumer of the results pulls the items, and only when there is room for the next one. So an item waits in
    /// its source while the pool is full, or while `limit` futures run or have results that were not taken. The futures
    /// themselves do not wait for the consumer: they run on the pool's workers while it is busy elsewhere. A map that
    /// is not polled may hold one place of the pool that it does not use.
    ///
    /// ```
    /// use async_pool::AsyncPool;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # futures_lite::future::block_on(async {
    /// let pool = AsyncPool::builder().capacity(100).build()?;
    /// let mut squares = pool.map(1..=4_u64, 2, |n| async move { n * n });
    /// let mut all = Vec::new();
    /// while let Some(square) = squares.next_async().await {
    ///     all.push(square?);
    /// }
    /// assert_eq!(all, [1, 4, 9, 16]);
    /// # Ok(()) })
    /// # }
    /// ```
    ///
    /// A `limit` of 0 is 1.
    #[doc(alias = "buffered")]
    pub fn map<'a, I, F>(
        &self,
        items: I,
        limit: usize,
        mut function: impl FnMut(I::Item) -> F + Send + 'a,
    ) -> Map<'a, F>
    where
        I: IntoIterator<IntoIter: Send + 'a>,
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let mut items = items.into_iter();
        let produce = move |_: &mut Context<'_>| Poll::Ready(items.next().map(&mut function));
        Map::new(self, limit, Box::new(produce))
    }

    /// Runs a future for each item in this pool, at most `limit` at a time, until one fails: an unordered
    /// [`map`](Self::map) that is [finished](Map::finish).
    ///
    /// ```
    /// use async_pool::AsyncPool;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # futures_lite::future::block_on(async {
    /// let pool = AsyncPool::builder().capacity(100).build()?;
    /// let parse = |text: &'static str| async move { text.parse::<u32>().map(drop) };
    /// pool.for_each_concurrent(["1", "2"], 10, parse).await??;
    /// assert!(pool.for_each_concurrent(["1", "x", "3"], 10, parse).await?.is_err());
    /// # Ok(()) })
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Map::finish`].
    #[doc(alias = "try_for_each_concurrent")]
    pub fn for_each_concurrent<'a, I, M, F, E>(
        &self,
        items: I,
        limit: usize,
        function: M,
    ) -> impl Future<Output = Result<Result<(), E>, JoinError>> + Send + use<'a, I, M, F, E>
    where
        M: FnMut(I::Item) -> F + Send + 'a,
        I: IntoIterator<IntoIter: Send + 'a>,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Send + 'static,
    {
        self.map(items, limit, function).unordered().finish()
    }

    /// Like [`map`](Self::map), for the items of a stream.
    #[cfg(feature = "stream")]
    pub fn map_stream<'a, S, F>(
        &self,
        items: S,
        limit: usize,
        mut function: impl FnMut(S::Item) -> F + Send + 'a,
    ) -> Map<'a, F>
    where
        S: futures_core::Stream + Send + 'a,
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let mut items = Box::pin(items);
        let produce = move |context: &mut Context<'_>| {
            let item = items.as_mut().poll_next(context);
            item.map(|item| item.map(&mut function))
        };
        Map::new(self, limit, Box::new(produce))
    }
}

impl<'a, F> Map<'a, F>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn new(pool: &AsyncPool, limit: usize, produce: Produce<'a, F>) -> Self {
        Self {
            pool: pool.clone(),
            limit: limit.max(1),
            produce: Some(produce),
            window: Window::Ordered(VecDeque::new()),
            room: None,
            refused: None,
        }
    }

    /// Returns the results in the order in which the futures end. Has to be called before the first result is asked for.
    ///
    /// # Panics
    /// If futures have been started.
    #[doc(alias = "buffer_unordered")]
    pub fn unordered(mut self) -> Self {
        assert_eq!(self.window.len(), 0, "the map has started futures");
        let group = self.pool.group();
        let next = group.next_end();
        self.window = Window::Unordered(group, next);
        self
    }

    /// Returns the next result, or `None` after the last one. Dropping the future loses no result.
    pub fn next_async(
        &mut self,
    ) -> impl Future<Output = Option<Result<F::Output, JoinError>>> + Send + Unpin {
        poll_fn(|context| self.poll_next(context))
    }

    /// Like [`next_async`](Self::next_async), for a future's `poll`.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<F::Output, JoinError>>> {
        let next = self.poll_result(context);
        if let Poll::Ready(Some(_)) = next {
            // So that the pool has work while the consumer handles the result.
            self.fill(context);
        }
        next
    }

    fn poll_result(&mut self, context: &mut Context<'_>) -> Poll<Option<Joined<F::Output>>> {
        self.fill(context);
        match self.window.poll(context) {
            Poll::Ready(None) if self.produce.is_none() => {
                Poll::Ready(self.refused.take().map(Err))
            }
            Poll::Ready(None) => Poll::Pending,
            next => next,
        }
    }

    /// Starts futures while there are items and room.
    fn fill(&mut self, context: &mut Context<'_>) {
        if self.produce.is_some() && !self.pool.shared().process.is_current() {
            self.end(Some(JoinError::Forked));
        }
        while let Some(produce) = &mut self.produce
            && self.window.len() < self.limit
        {
            let room = match &mut self.room {
                Some(wait) => wait.as_mut().poll(context),
                None => match self.pool.try_reserve() {
                    Err(SubmitError::Full(())) => {
                        self.room = Some(Box::pin(self.pool.reserve_async()));
                        continue;
                    }
                    room => Poll::Ready(room),
                },
            };
            let Poll::Ready(room) = room else {
                return;
            };
            self.room = None;
            match room {
                // Without an item the permit is dropped: a map holds no room while it waits for its source.
                Ok(permit) => match produce(context) {
                    Poll::Ready(Some(future)) => self.window.spawn(permit, future),
                    Poll::Ready(None) => self.end(None),
                    Poll::Pending => return,
                },
                // Too many callers wait. There is another chance when the next future has ended.
                Err(SubmitError::Full(())) if self.window.len() > 0 => return,
                Err(refused) => self.end(Some(why(&refused))),
            }
        }
    }

    /// Pulls no more items.
    fn end(&mut self, refused: Option<JoinError>) {
        self.produce = None;
        self.refused = refused;
    }

    /// Cancels the futures that have not ended, and pulls no more items. Their results are still returned.
    pub fn cancel(&mut self) {
        (self.produce, self.room) = (None, None);
        match &self.window {
            Window::Ordered(handles) => handles.iter().for_each(JoinHandle::cancel),
            Window::Unordered(group, _) => group.cancel(),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static, F> Map<'_, F>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    /// Runs all futures until one fails. Then cancels the others, and waits until they have been dropped.
    ///
    /// # Errors
    /// The first failure. The outer error is that of a future that panicked, or of a released pool; the inner one was
    /// returned by a future.
    pub async fn finish(mut self) -> Result<Result<(), E>, JoinError> {
        let mut first = Ok(Ok(()));
        while let Some(ended) = poll_fn(|context| self.poll_result(context)).await {
            first = first_failure(first, ended);
            if !matches!(first, Ok(Ok(()))) {
                self.cancel();
            }
        }
        first
    }
}

fn why(refused: &SubmitError) -> JoinError {
    match refused {
        SubmitError::Released(()) => JoinError::Released,
        SubmitError::Forked(()) => JoinError::Forked,
        _ => JoinError::Discarded,
    }
}

#[cfg(feature = "stream")]
impl<F> futures_core::Stream for Map<'_, F>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    type Item = Joined<F::Output>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Map::poll_next(self.get_mut(), context)
    }
}

impl<F: Future<Output: Send + 'static>> fmt::Debug for Map<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("limit", &self.limit)
            .field("window", &self.window.len())
            .finish_non_exhaustive()
    }
}

fn first_failure<T, E>(
    first: Result<Result<(), E>, JoinError>,
    ended: Result<Result<T, E>, JoinError>,
) -> Result<Result<(), E>, JoinError> {
    match first {
        Ok(Ok(())) => ended.map(|result| result.map(drop)),
        failed => failed,
    }
}

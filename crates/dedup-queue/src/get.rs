//! Waiting for a key, as a thread and as a future.
//!
//! [`Waiters`](delay_queue::wait::Waiters) decides which waiter is notified, and documents its
//! protocol; this file has the steps of the waiting parties.

use std::fmt;
use std::future::{Future, poll_fn};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use delay_queue::wait::{Driver, Unavailable, WaitError, WaiterId};
use sync_shim::{Clock, Parker, Timeout};

use crate::core::{Core, DefaultClock, Hasher, Key};
use crate::error::GetError;
use crate::held::Held;
use crate::keys::{Keys, Place, Taken};
use crate::layer::{Layer, Plain};
use crate::queue::KeyQueue;
use crate::state::{Effects, State};

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Takes the key that has been ready longest (see [`low_priority`](KeyQueue::low_priority) for
    /// the order of two priorities). Blocks until a key is ready.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?;
    /// let held = queue.get()?;
    /// assert_eq!(*held, "a");
    /// held.done();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GetError::Closed`] once the queue is shut down and no more keys will be delivered. In a
    /// forked process, every call that would wait returns [`GetError::Forked`] instead.
    #[doc(alias = "Get")]
    #[doc(alias = "pop")]
    #[doc(alias = "take")]
    #[inline]
    pub fn get(&self) -> Result<Held<'_, K, L>, GetError> {
        match self.core().take() {
            Ok(taken) => Ok(self.held(taken)),
            Err(_) => Ok(self.held(self.core().take_late(None)?)),
        }
    }

    /// Like [`get`](KeyQueue::get), but waits for at most a duration, or until an instant.
    ///
    /// ```
    /// use dedup_queue::{DedupQueue, GetError};
    /// use std::time::Duration;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// assert!(matches!(queue.get_timeout(Duration::from_millis(1)), Err(GetError::TimedOut)));
    /// ```
    ///
    /// # Errors
    /// [`GetError::TimedOut`] and [`GetError::Closed`].
    pub fn get_timeout(&self, timeout: impl Into<Timeout>) -> Result<Held<'_, K, L>, GetError> {
        let deadline = timeout.into().deadline(self.clock());
        match self.core().take() {
            Ok(taken) => Ok(self.held(taken)),
            Err(_) => Ok(self.held(self.core().take_late(deadline)?)),
        }
    }

    /// Takes the key that has been ready longest, if there is one. Never blocks.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?;
    /// while let Ok(held) = queue.try_get() {
    ///     println!("{held:?}"); // Dropping the guard means done.
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GetError::Empty`] and [`GetError::Closed`].
    pub fn try_get(&self) -> Result<Held<'_, K, L>, GetError> {
        match self.core().take() {
            Ok(taken) => Ok(self.held(taken)),
            Err(unavailable) => Err(unavailable.into()),
        }
    }

    /// Takes up to `most` keys at once, in order. Blocks until a key is ready.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// for key in ["a", "b", "c"] {
    ///     queue.add(key)?;
    /// }
    /// let two = std::num::NonZeroUsize::new(2).unwrap();
    /// assert_eq!(queue.get_batch(two)?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](KeyQueue::get).
    pub fn get_batch(&self, most: NonZeroUsize) -> Result<Vec<Held<'_, K, L>>, GetError> {
        let batch = self.core().wait_for(None, up_to(most))?;
        Ok(self.held_all(batch))
    }

    /// Like [`get_batch`](KeyQueue::get_batch), but waits for at most `timeout`.
    ///
    /// # Errors
    /// As [`get_timeout`](KeyQueue::get_timeout).
    pub fn get_batch_timeout(
        &self,
        most: NonZeroUsize,
        timeout: impl Into<Timeout>,
    ) -> Result<Vec<Held<'_, K, L>>, GetError> {
        let deadline = timeout.into().deadline(self.clock());
        let batch = self.core().wait_for(deadline, up_to(most))?;
        Ok(self.held_all(batch))
    }

    /// Like [`get_batch`](KeyQueue::get_batch), but never blocks.
    ///
    /// # Errors
    /// As [`try_get`](KeyQueue::try_get).
    pub fn try_get_batch(&self, most: NonZeroUsize) -> Result<Vec<Held<'_, K, L>>, GetError> {
        let batch = self.core().try_get(up_to(most))?;
        Ok(self.held_all(batch))
    }

    /// Async version of [`get`](KeyQueue::get). Needs no particular runtime: the clock wakes the
    /// future.
    ///
    /// A future that is dropped before it is ready takes no key, notified or not. A future that is
    /// polled after it was ready takes another key. Its output is an error as in
    /// [`get`](KeyQueue::get), or [`GetError::NoAlarm`].
    ///
    /// The future does not yield while keys are ready. So a task that takes and finishes keys without
    /// awaiting other futures occupies its executor's thread until no key is ready. If other tasks
    /// share the thread, call `tokio::task::yield_now().await` (or similar) in the loop.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?;
    /// # futures_lite::future::block_on(async {
    /// let held = queue.get_async().await?;
    /// assert_eq!(*held, "a");
    /// # Ok::<(), dedup_queue::GetError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_async(&self) -> GetFuture<K, S, C, L> {
        GetFuture {
            queue: self.clone(),
            id: None,
        }
    }

    /// Async version of [`get_batch`](KeyQueue::get_batch). The future behaves as that of
    /// [`get_async`](KeyQueue::get_async).
    pub fn get_batch_async(
        &self,
        most: NonZeroUsize,
    ) -> impl Future<Output = Result<Vec<Held<'static, K, L>>, GetError>> + Send + Unpin + use<K, S, C, L>
    {
        let mut wait = self.get_async();
        poll_fn(move |context| {
            let polled = wait.poll_for(context, up_to(most));
            polled.map(|batch| {
                let batch = wait.queue.held_all(batch?).into_iter();
                Ok(batch.map(Held::into_owned).collect())
            })
        })
    }

    #[inline]
    fn held(&self, (key, place): (K, Place)) -> Held<'_, K, L> {
        Held::new(self.core(), key, place)
    }

    /// Creates the guard of a key that was taken in a section that recorded the time.
    fn held_noted(&self, taken: Taken<K>) -> Held<'_, K, L> {
        let held = self.held((taken.key, taken.place));
        self.core().note_taken(taken.waited);
        held
    }

    fn held_all(&self, batch: Vec<Taken<K>>) -> Vec<Held<'_, K, L>> {
        batch
            .into_iter()
            .map(|taken| self.held_noted(taken))
            .collect()
    }
}

/// Returns a function that takes a batch, if a key is ready.
fn up_to<K>(most: NonZeroUsize) -> impl FnMut(&mut Keys<K>) -> Option<Vec<Taken<K>>> {
    move |keys| {
        let first = keys.take()?;
        let more = std::iter::from_fn(|| keys.take()).take(most.get() - 1);
        Some(std::iter::once(first).chain(more).collect())
    }
}

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    fn try_get<T>(&self, take: impl FnMut(&mut Keys<K>) -> Option<T>) -> Result<T, GetError> {
        Ok(self.update(|state| {
            self.tick(state);
            state.look(take)
        })?)
    }

    /// Waits for a key. The caller creates the guard, in the same place as on the path without a
    /// wait: so the guard is built from values, and not written to memory and moved.
    #[cold]
    fn take_late(&self, deadline: Option<Instant>) -> Result<(K, Place), GetError> {
        let taken = self.wait_for(deadline, Keys::take)?;
        self.note_taken(taken.waited);
        Ok((taken.key, taken.place))
    }

    fn wait_for<T>(
        &self,
        deadline: Option<Instant>,
        mut take: impl FnMut(&mut Keys<K>) -> Option<T>,
    ) -> Result<T, GetError> {
        let look = |state: &mut State<K>, _: &mut Effects<K>| state.look(&mut take);
        Ok(self.wait(&Parker::of_thread(), deadline, look)?)
    }
}

impl From<WaitError> for GetError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Closed => Self::Closed,
            WaitError::TimedOut => Self::TimedOut,
            WaitError::NoAlarm(error) => Self::NoAlarm(error),
            WaitError::Forked => Self::Forked,
        }
    }
}

impl From<Unavailable> for GetError {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::Closed => Self::Closed,
            Unavailable::Empty | Unavailable::NotDue => Self::Empty,
        }
    }
}

/// Future of [`KeyQueue::get_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct GetFuture<K: Key, S: Hasher, C: Clock = DefaultClock, L: Layer = Plain> {
    queue: KeyQueue<K, S, C, L>,
    id: Option<WaiterId>,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Future for GetFuture<K, S, C, L> {
    type Output = Result<Held<'static, K, L>, GetError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.poll_for(context, Keys::take);
        polled.map(|taken| Ok(self.queue.held_noted(taken?).into_owned()))
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> GetFuture<K, S, C, L> {
    fn poll_for<T>(
        &mut self,
        context: &mut Context<'_>,
        mut take: impl FnMut(&mut Keys<K>) -> Option<T>,
    ) -> Poll<Result<T, WaitError>> {
        let look = |state: &mut State<K>, _: &mut Effects<K>| state.look(&mut take);
        self.queue.core().poll_wait(&mut self.id, context, look)
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Drop for GetFuture<K, S, C, L> {
    fn drop(&mut self) {
        self.queue.core().cancel_wait(&mut self.id);
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> fmt::Debug for GetFuture<K, S, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetFuture").finish_non_exhaustive()
    }
}

//! Taking due entries in batches: at once, as a thread that waits, and as a future.
//!
//! A batch is taken in one section: its consumer takes the lock once, and which waiters to notify
//! is decided once. The batch goes into a buffer of the caller, which keeps its memory between
//! batches. No memory is allocated under the lock.

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use sync_shim::{Clock, Parker, Timeout};

use crate::builder::DefaultClock;
use crate::queue::Shared;
use crate::state::{Effects, State};
use crate::wait::{Driver, Unavailable, WaiterId};
use crate::{DelayQueue, Expired, TakeError};

/// Maximum number of entries for which one batch call makes room in the buffer. A batch is larger
/// only if its buffer has more spare capacity.
pub const BATCH_ROOM: usize = 1024;

impl<T, C: Clock> DelayQueue<T, C> {
    /// Takes up to `most` due entries, in order, and appends them to `into`. Blocks until an entry
    /// is due. Returns the number of entries: at least one.
    ///
    /// A batch has at most [`BATCH_ROOM`](crate::BATCH_ROOM) entries, unless `into` has more spare
    /// capacity. So a buffer that is cleared and reused keeps its size, and its capacity limits how
    /// long one batch holds the lock (O(log n) per entry). Entries that fall due during the call
    /// may be left for the next one.
    ///
    /// One waiting consumer was notified for each entry that fell due. Consumers whose entries are
    /// in this batch find none, and continue to wait.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// for n in 0..250 {
    ///     queue.push(n, Duration::ZERO)?;
    /// }
    /// queue.close();
    ///
    /// let hundred = NonZeroUsize::new(100).unwrap();
    /// let (mut batch, mut sizes) = (Vec::new(), Vec::new());
    /// while let Ok(count) = queue.take_many(&mut batch, hundred) {
    ///     sizes.push(count);
    ///     batch.clear(); // The next batch reuses its memory.
    /// }
    /// assert_eq!(sizes, [100, 100, 50]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`take`](DelayQueue::take); `into` is unchanged.
    #[doc(alias = "recv_many")]
    #[doc(alias = "take_batch")]
    pub fn take_many(
        &self,
        into: &mut Vec<Expired<T>>,
        most: NonZeroUsize,
    ) -> Result<usize, TakeError> {
        self.0.take_many(into, most, None)
    }

    /// Like [`take_many`](DelayQueue::take_many), but waits for at most `timeout`.
    ///
    /// # Errors
    /// As [`take_timeout`](DelayQueue::take_timeout); `into` is unchanged.
    pub fn take_many_timeout(
        &self,
        into: &mut Vec<Expired<T>>,
        most: NonZeroUsize,
        timeout: impl Into<Timeout>,
    ) -> Result<usize, TakeError> {
        self.0
            .take_many(into, most, timeout.into().deadline(&self.0.config.clock))
    }

    /// Like [`take_many`](DelayQueue::take_many), but never blocks.
    ///
    /// # Errors
    /// As [`try_take`](DelayQueue::try_take); `into` is unchanged.
    #[doc(alias = "try_recv_many")]
    pub fn try_take_many(
        &self,
        into: &mut Vec<Expired<T>>,
        most: NonZeroUsize,
    ) -> Result<usize, TakeError> {
        let most = room_for(into, most);
        Ok(self.0.look_for_many(into, most)?)
    }

    /// Async version of [`take_many`](DelayQueue::take_many).
    ///
    /// The future behaves as that of [`take_async`](DelayQueue::take_async): if it is dropped
    /// before it is ready, it takes no entry, and `into` is unchanged. A future that is polled
    /// after it was ready takes the next batch.
    pub fn take_many_async<'a>(
        &self,
        into: &'a mut Vec<Expired<T>>,
        most: NonZeroUsize,
    ) -> TakeManyFuture<'a, T, C> {
        TakeManyFuture {
            shared: Arc::clone(&self.0),
            into,
            most,
            id: None,
        }
    }
}

/// Makes room in the buffer, and returns the maximum size of the batch.
fn room_for<T>(into: &mut Vec<Expired<T>>, most: NonZeroUsize) -> usize {
    let most = most.get();
    // Entries taken under the lock fit without an allocation. A batch of this size is worth the one
    // allocation here.
    into.reserve(most.min(BATCH_ROOM));
    most.min(into.capacity() - into.len())
}

impl<T, C: Clock> Shared<T, C> {
    fn take_many(
        &self,
        into: &mut Vec<Expired<T>>,
        most: NonZeroUsize,
        deadline: Option<Instant>,
    ) -> Result<usize, TakeError> {
        let most = room_for(into, most);
        if let Ok(taken) = self.look_for_many(into, most) {
            return Ok(taken);
        }
        let look = |state: &mut State<T>, effects: &mut Effects| {
            state.take_many(most, |entry| into.push(self.expired(entry)), effects)
        };
        Ok(self.wait(&Parker::of_thread(), deadline, look)?)
    }

    /// Takes up to `most` entries that are due by now.
    pub(crate) fn look_for_many(
        &self,
        into: &mut Vec<Expired<T>>,
        most: usize,
    ) -> Result<usize, Unavailable> {
        self.section(|state, effects| {
            // The time is read even if the first entry is known to be due: more entries may be due
            // by now.
            state.learn(self.now());
            state.take_many(most, |entry| into.push(self.expired(entry)), effects)
        })
    }
}

/// Future of the next batch. [`take_many`](DelayQueue::take_many) has an example.
#[must_use = "a future does nothing until it is polled"]
pub struct TakeManyFuture<'a, T, C: Clock = DefaultClock> {
    shared: Arc<Shared<T, C>>,
    into: &'a mut Vec<Expired<T>>,
    most: NonZeroUsize,
    id: Option<WaiterId>,
}

impl<T, C: Clock> Future for TakeManyFuture<'_, T, C> {
    type Output = Result<usize, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            shared,
            into,
            most,
            id,
        } = &mut *self;
        let most = room_for(into, *most);
        let now = shared.now(); // User code, so before the section. See `look_for_many`.
        let polled = shared.poll_wait(id, context, |state, effects| {
            state.learn(now);
            state.take_many(most, |entry| into.push(shared.expired(entry)), effects)
        });
        polled.map(|taken| Ok(taken?))
    }
}

impl<T, C: Clock> Drop for TakeManyFuture<'_, T, C> {
    fn drop(&mut self) {
        self.shared.cancel_wait(&mut self.id);
    }
}

impl<T, C: Clock> fmt::Debug for TakeManyFuture<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeManyFuture")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

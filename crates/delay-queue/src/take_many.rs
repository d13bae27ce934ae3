//! Taking what is due in batches: at once, as a thread that waits, and as a future.
//!
//! A batch is taken in one section, so it costs its consumer one lock, and the others one decision
//! about whom to notify. It goes into a buffer of the caller's, which keeps its memory from batch to
//! batch. No memory is allocated under the lock.

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sync_shim::{Clock, Parker};

use crate::builder::DefaultClock;
use crate::queue::Shared;
use crate::state::{Effects, State};
use crate::wait::{Driver, Unavailable, WaiterId};
use crate::{DelayQueue, Expired, TakeError};

/// For no more entries than this is room made in the buffer of a batch, in one call. A batch is
/// larger only if its buffer has spare capacity for more.
pub const BATCH_ROOM: usize = 1024;

impl<T, C: Clock> DelayQueue<T, C> {
    /// Takes up to `most` due entries, in order, and appends them to `into`. Blocks until one is
    /// due. The answer is how many they are: at least one.
    ///
    /// A batch has no more than [`BATCH_ROOM`](crate::BATCH_ROOM) entries, unless `into` has spare
    /// capacity for more. So a buffer that is cleared and reused stays as large as it is, and its
    /// capacity says for how many entries at most (O(log n) for each) one batch holds the lock. What
    /// falls due while the call runs may be left to the next.
    ///
    /// A consumer was woken for each entry that fell due, as far as any waited. Those whose entries
    /// are in this batch find nothing, and wait on.
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
    ///     batch.clear(); // Its memory is used for the next one.
    /// }
    /// assert_eq!(sizes, [100, 100, 50]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`take`](DelayQueue::take); `into` is as it was.
    #[doc(alias = "recv_many")]
    #[doc(alias = "take_batch")]
    pub fn take_many(
        &self,
        into: &mut Vec<Expired<T>>,
        most: NonZeroUsize,
    ) -> Result<usize, TakeError> {
        self.0.take_many(into, most, None)
    }

    /// As [`take_many`](DelayQueue::take_many), for at most this long.
    ///
    /// # Errors
    /// As [`take_timeout`](DelayQueue::take_timeout); `into` is as it was.
    pub fn take_many_timeout(
        &self,
        into: &mut Vec<Expired<T>>,
        most: NonZeroUsize,
        timeout: Duration,
    ) -> Result<usize, TakeError> {
        let deadline = self.0.config.clock.after(timeout);
        self.0.take_many(into, most, deadline)
    }

    /// As [`take_many`](DelayQueue::take_many), until this time at most.
    ///
    /// # Errors
    /// As [`take_deadline`](DelayQueue::take_deadline); `into` is as it was.
    pub fn take_many_deadline(
        &self,
        into: &mut Vec<Expired<T>>,
        most: NonZeroUsize,
        deadline: Instant,
    ) -> Result<usize, TakeError> {
        self.0.take_many(into, most, Some(deadline))
    }

    /// As [`take_many`](DelayQueue::take_many), if anything is due. Never blocks.
    ///
    /// # Errors
    /// As [`try_take`](DelayQueue::try_take); `into` is as it was.
    #[doc(alias = "try_recv_many")]
    pub fn try_take_many(
        &self,
        into: &mut Vec<Expired<T>>,
        most: NonZeroUsize,
    ) -> Result<usize, TakeError> {
        let most = room_for(into, most);
        Ok(self.0.look_for_many(into, most)?)
    }

    /// As [`take_many`](DelayQueue::take_many), as a future.
    ///
    /// All that [`take_async`](DelayQueue::take_async) says of futures holds: one that is dropped
    /// before it is ready takes nothing with it, and `into` is as it was. Polled after it was ready,
    /// it takes the next batch.
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

/// Makes room in the buffer, and says for how many entries of a batch it is.
fn room_for<T>(into: &mut Vec<Expired<T>>, most: NonZeroUsize) -> usize {
    let most = most.get();
    // What is taken under the lock fits. A batch of this size is worth its one allocation.
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
            // Also if the first entry is due by the time that is known: others may be by now.
            state.learn(self.now());
            state.take_many(most, |entry| into.push(self.expired(entry)), effects)
        })
    }
}

/// Future of the next batch. See [`DelayQueue::take_many_async`], and the example of
/// [`take_many`](DelayQueue::take_many).
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
        let now = shared.now(); // As in `look_for_many`; user code, so before the section.
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

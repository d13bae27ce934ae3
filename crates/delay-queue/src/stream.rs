//! Due entries as a stream.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use sync_shim::Clock;

use crate::builder::DefaultClock;
use crate::{DelayQueue, Expired, TakeError, TakeFuture};

impl<T, C: Clock> DelayQueue<T, C> {
    /// Returns a stream of the due entries. It ends when the queue is closed and no entry in it can
    /// fall due.
    ///
    /// An entry is taken when it is yielded: a stream that is dropped loses no entry. A queue may
    /// have several streams; each entry is yielded by one of them. An item is an error only if [no
    /// alarm](TakeError::NoAlarm) could be set, after which the stream may be polled again, or in a
    /// [forked](TakeError::Forked) child, where the error is the last item.
    ///
    /// Like [`take_async`](DelayQueue::take_async), the stream never yields to the executor while
    /// an entry is due.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use delay_queue::DelayQueue;
    /// use futures_lite::{StreamExt, future::block_on};
    ///
    /// let queue = DelayQueue::new();
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// queue.push_at("second", soon + Duration::from_millis(1))?;
    /// queue.push_at("first", soon)?;
    /// queue.close();
    ///
    /// let values = queue.stream().map(|expired| expired.map(|expired| expired.value));
    /// let values: Result<Vec<_>, _> = block_on(values.try_collect());
    /// assert_eq!(values?, ["first", "second"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stream(&self) -> TakeStream<T, C> {
        TakeStream {
            next: self.take_async(),
            has_ended: false,
        }
    }
}

/// Stream of due entries. [`DelayQueue::stream`] has an example.
#[must_use = "a stream does nothing until it is polled"]
pub struct TakeStream<T, C: Clock = DefaultClock> {
    next: TakeFuture<T, C>,
    has_ended: bool,
}

impl<T, C: Clock> Stream for TakeStream<T, C> {
    type Item = Result<Expired<T>, TakeError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        // The future can be polled again after its output: it then takes the next entry.
        let taken = ready!(Pin::new(&mut self.next).poll(context));
        self.has_ended = matches!(taken, Err(TakeError::Closed | TakeError::Forked));
        Poll::Ready((!matches!(taken, Err(TakeError::Closed))).then_some(taken))
    }
}

impl<T, C: Clock> FusedStream for TakeStream<T, C> {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

impl<T, C: Clock> fmt::Debug for TakeStream<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeStream").finish_non_exhaustive()
    }
}

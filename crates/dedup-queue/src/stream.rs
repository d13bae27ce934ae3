//! Keys as a stream of guards.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use sync_shim::Clock;

use crate::core::{DefaultClock, Hasher, Key};
use crate::layer::{Layer, Plain};
use crate::{GetError, GetFuture, Held, KeyQueue};

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Keys as they become ready, one guard after the other. It ends when the queue is
    /// [closed](GetError::Closed).
    ///
    /// A key is taken when its guard is yielded: a stream that is dropped takes nothing with it.
    /// There may be several of a queue, and each key comes out of one. Guards are let go in any order:
    /// so many as are held at a time are worked on at once (`for_each_concurrent`, `buffer_unordered`),
    /// and a guard that is kept holds up its key alone. An item is an error only if
    /// [no alarm](GetError::NoAlarm) could be set; the stream may be polled on after it. In a
    /// [forked](GetError::Forked) process the error is the last item.
    ///
    /// Like [`get_async`](KeyQueue::get_async), it never yields to the executor while a key is ready.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    /// use futures_lite::StreamExt;
    ///
    /// # futures_lite::future::block_on(async {
    /// let queue = DedupQueue::<&str>::new();
    /// for key in ["a", "b", "a"] {
    ///     queue.add(key)?;
    /// }
    /// queue.shut_down(); // What is ready is still delivered.
    ///
    /// let mut keys = queue.stream();
    /// let mut seen = Vec::new();
    /// while let Some(held) = keys.next().await {
    ///     let held = held?;
    ///     seen.push(*held);
    ///     held.done();
    /// }
    /// assert_eq!(seen, ["a", "b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn stream(&self) -> GetStream<K, S, C, L> {
        GetStream {
            next: self.get_async(),
            has_ended: false,
        }
    }
}

/// See [`KeyQueue::stream`].
#[must_use = "a stream does nothing until it is polled"]
pub struct GetStream<K: Key, S: Hasher, C: Clock = DefaultClock, L: Layer = Plain> {
    next: GetFuture<K, S, C, L>,
    has_ended: bool,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Stream for GetStream<K, S, C, L> {
    type Item = Result<Held<'static, K, L>, GetError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        // After its output, the future takes the next key.
        let got = ready!(Pin::new(&mut self.next).poll(context));
        self.has_ended = matches!(got, Err(GetError::Closed | GetError::Forked));
        Poll::Ready((!matches!(got, Err(GetError::Closed))).then_some(got))
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> FusedStream for GetStream<K, S, C, L> {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> fmt::Debug for GetStream<K, S, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetStream").finish_non_exhaustive()
    }
}

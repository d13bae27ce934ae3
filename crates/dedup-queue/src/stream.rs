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
    /// Returns a stream of keys as they become ready, as guards. It ends when the queue is
    /// [closed](GetError::Closed).
    ///
    /// A key is taken when its guard is yielded: a stream that is dropped loses no key. A queue may
    /// have several streams; each key is yielded by one of them. Guards may be released in any
    /// order, so keys can be processed concurrently (`for_each_concurrent`, `buffer_unordered`): a
    /// guard that is kept delays only its own key. An item is an error only if [no
    /// alarm](GetError::NoAlarm) could be set, after which the stream may be polled again, or in a
    /// [forked](GetError::Forked) process, where the error is the last item.
    ///
    /// Like [`get_async`](KeyQueue::get_async), the stream never yields to the executor while a key
    /// is ready.
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
    /// queue.shut_down(); // Ready keys are still delivered.
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

/// Stream of [`KeyQueue::stream`].
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
        // The future can be polled again after its output: it then takes the next key.
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

//! Keys held by workers.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::core::Key;
use crate::keys::Place;
use crate::layer::{Delays, Layer, Plain, Retries};
use crate::policy::Retried;
use crate::records::Slot;

/// Operations of a guard on its queue, independent of the queue's hasher and clock.
pub(crate) trait GuardOps<K>: Send + Sync {
    fn share(&self) -> Arc<dyn GuardOps<K>>;
    /// Takes the key. Here and below, the key stays in the guard until it is needed or dropped:
    /// moving it out of the guard earlier would read at once what was just written in pieces.
    fn done(&self, slot: Slot, key: &mut Option<K>);
    /// Like `done`, and forgets the failures.
    fn succeed(&self, slot: Slot, key: &mut Option<K>);
    /// Takes the key after the clock has been read. Returns `None` if there was no key.
    fn retry_after(&self, slot: Slot, key: &mut Option<K>, delay: Duration) -> Option<Retried>;
    /// Takes the key after the limiter, which is user code, has returned a delay; with a given
    /// delay the limiter is not called. Returns `None` if there was no key.
    fn retry(
        &self,
        slot: Slot,
        key: &mut Option<K>,
        failures: u32,
        delay: Option<Duration>,
    ) -> Option<Retried>;
    fn failures(&self, slot: Slot) -> u32;
    fn forget(&self, slot: Slot);
}

/// A key that this worker holds: no other worker gets it until it is released.
///
/// Dropping the guard means done, also during a panic. If the key was added in the meantime, it is
/// then ready again. In a queue with back-off ([`Retrying`](crate::Retrying)) a drop leaves the
/// key's failures unchanged until they expire: call [`succeed`](Held::succeed) or
/// [`retry`](Held::retry).
///
/// The guard borrows the queue, as a lock's guard borrows the lock. It can be sent to another
/// thread; [`into_owned`](Held::into_owned) removes the borrow. A leaked guard (`std::mem::forget`)
/// holds its key for ever, and no drain finishes.
///
/// ```
/// use dedup_queue::DedupQueue;
///
/// let queue = DedupQueue::<&str>::new();
/// queue.add("a")?;
/// let held = queue.get()?;
/// queue.add("a")?; // Added again while it is held.
/// assert!(queue.try_get().is_err(), "no other worker gets it");
/// drop(held);
/// assert_eq!(*queue.try_get()?, "a");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "processing")]
#[must_use = "dropping it means that the key is done"]
pub struct Held<'q, K: Key, L: Layer = Plain> {
    queue: QueueRef<'q, K>,
    /// Present until the key is released.
    key: Option<K>,
    place: Place,
    layer: PhantomData<fn() -> L>,
}

/// A guard's reference to its queue.
///
/// Borrowed if possible: a shared reference costs two atomic read-modify-writes, on a cache line
/// that all workers write to. That is as much as one of a key's three sections.
enum QueueRef<'q, K> {
    Borrowed(&'q dyn GuardOps<K>),
    Shared(Arc<dyn GuardOps<K>>),
}

impl<K> QueueRef<'_, K> {
    #[inline]
    fn queue(&self) -> &dyn GuardOps<K> {
        match self {
            Self::Borrowed(queue) => *queue,
            Self::Shared(queue) => &**queue,
        }
    }
}

impl<'q, K: Key, L: Layer> Held<'q, K, L> {
    #[inline]
    pub(crate) fn new(queue: &'q dyn GuardOps<K>, key: K, place: Place) -> Self {
        Self {
            queue: QueueRef::Borrowed(queue),
            key: Some(key),
            place,
            layer: PhantomData,
        }
    }

    /// Returns the key.
    #[expect(
        clippy::missing_panics_doc,
        reason = "the guard has a key until it is dropped"
    )]
    pub fn key(&self) -> &K {
        self.key.as_ref().expect("a key is taken with its guard")
    }

    /// Replaces the borrow of the queue by shared ownership: the guard keeps the queue alive, and
    /// is `'static`.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    /// use std::thread;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a").unwrap();
    /// let held = queue.get().unwrap().into_owned();
    /// drop(queue);
    /// thread::spawn(move || assert_eq!(*held, "a")).join().unwrap();
    /// ```
    pub fn into_owned(mut self) -> Held<'static, K, L> {
        Held {
            queue: QueueRef::Shared(self.queue.queue().share()),
            key: self.key.take(),
            place: self.place,
            layer: PhantomData,
        }
    }

    /// Releases the key, like dropping the guard.
    #[doc(alias = "Done")]
    pub fn done(self) {
        drop(self);
    }
}

impl<K: Key, L: Delays> Held<'_, K, L> {
    /// Releases the key, to be delivered again after `delay`. Counts no failure.
    ///
    /// If the key was added in the meantime, it is ready at once. If it was delayed to an earlier
    /// time, it keeps that time.
    ///
    /// ```
    /// use dedup_queue::{DedupDelayQueue, Retried};
    /// use std::time::Duration;
    ///
    /// let queue = DedupDelayQueue::<&str>::new();
    /// queue.add("a")?;
    /// let hour = Duration::from_secs(3600);
    /// assert_eq!(queue.get()?.retry_after(hour), Retried::After(hour));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retry_after(mut self, delay: Duration) -> Retried {
        let slot = self.place.slot();
        let retried = self.queue.queue().retry_after(slot, &mut self.key, delay);
        retried.unwrap_or(Retried::Ready) // The guard has its key until it is dropped.
    }
}

impl<K: Key, L: Retries> Held<'_, K, L> {
    /// Reports success: releases the key and forgets its failures.
    ///
    /// ```
    /// use dedup_queue::DedupRetryQueue;
    ///
    /// let queue = DedupRetryQueue::<&str>::new();
    /// queue.add_rate_limited("a")?;
    /// queue.get()?.succeed();
    /// assert_eq!(queue.failures(&"a"), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn succeed(mut self) {
        let slot = self.place.slot();
        self.queue.queue().succeed(slot, &mut self.key);
    }

    /// Reports failure: counts it, and delivers the key again after the limiter's delay. In one
    /// step, so no other worker gets the key in between.
    ///
    /// If the key was delivered before the back-off of its last failure was over, because it was
    /// added in the meantime, this was an extra attempt: no failure is counted, the limiter is not
    /// called, and the key waits for the rest of that back-off. So events cause an attempt at once,
    /// but neither lengthen the back-off nor use up attempts. An attempt that lasts until the
    /// back-off is over counts.
    ///
    /// If this was the key's last attempt, the key is forgotten instead, and the dead-letter hook
    /// is called on this thread; its panics propagate to the caller. A retry that is pending for an
    /// earlier failure is cancelled. A delivery that was requested by an add is still made, as if
    /// the key were new.
    ///
    /// ```
    /// use dedup_queue::DedupRetryQueue;
    ///
    /// let queue = DedupRetryQueue::<&str>::new();
    /// queue.add("a")?;
    /// queue.get()?.retry(); // The attempt failed.
    /// assert_eq!(queue.failures(&"a"), 1);
    /// assert_eq!(*queue.get()?, "a", "after a few milliseconds");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the limiter does. The key is then done, and no failure is counted.
    #[doc(alias = "AddRateLimited")]
    pub fn retry(self) -> Retried {
        self.retry_failed(None)
    }

    /// Reports failure, as [`retry`](Held::retry), with a delay that the worker knows better than
    /// the limiter: counts the failure, and delivers the key again after `delay`. The limiter is
    /// not called now; the next time that it is called, its count includes this failure.
    ///
    /// For services that say when to come back. If that is not a failure, call
    /// [`retry_after`](Held::retry_after), which counts nothing.
    ///
    /// Otherwise this behaves as `retry`: the last attempt gives the key up, and an early attempt
    /// is not counted. After an early attempt the key waits for the rest of its back-off, or for
    /// `delay` if that is longer.
    ///
    /// ```
    /// use dedup_queue::{DedupRetryQueue, ManualClock, Retried};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let queue = DedupRetryQueue::<&str>::builder().clock(clock.clone()).build();
    /// queue.add("a")?;
    ///
    /// // "503, Retry-After: 30".
    /// let said = Duration::from_secs(30);
    /// assert_eq!(queue.get()?.retry_failed_after(said), Retried::After(said));
    /// assert_eq!(queue.failures(&"a"), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retry_failed_after(self, delay: Duration) -> Retried {
        self.retry_failed(Some(delay))
    }

    #[inline]
    fn retry_failed(mut self, delay: Option<Duration>) -> Retried {
        let (slot, failures) = (self.place.slot(), self.place.failures());
        let queue = self.queue.queue();
        let retried = queue.retry(slot, &mut self.key, failures, delay);
        retried.unwrap_or(Retried::Ready) // The guard has its key until it is dropped.
    }

    /// Returns the number of failures in a row, not counting the current attempt.
    #[doc(alias = "NumRequeues")]
    pub fn failures(&self) -> u32 {
        self.queue.queue().failures(self.place.slot())
    }

    /// Forgets the key's failures. The key is still held.
    #[doc(alias = "Forget")]
    pub fn forget(&self) {
        self.queue.queue().forget(self.place.slot());
    }
}

impl<K: Key, L: Layer> Deref for Held<'_, K, L> {
    type Target = K;

    fn deref(&self) -> &K {
        self.key()
    }
}

impl<K: Key, L: Layer> Drop for Held<'_, K, L> {
    #[inline]
    fn drop(&mut self) {
        if self.key.is_some() {
            let slot = self.place.slot();
            self.queue.queue().done(slot, &mut self.key);
        }
    }
}

impl<K: Key + fmt::Debug, L: Layer> fmt::Debug for Held<'_, K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(self.key()).finish()
    }
}

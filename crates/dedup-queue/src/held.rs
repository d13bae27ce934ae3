//! A key in a worker's hands.

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

/// What a guard asks of its queue, whatever its hasher and its clock are.
pub(crate) trait GuardOps<K>: Send + Sync {
    /// A share of the queue.
    fn share(&self) -> Arc<dyn GuardOps<K>>;
    /// Takes the key. Here and below it is left where it is until it is needed or dropped: to move
    /// it out of a guard is to read at once what was just written in pieces.
    fn done(&self, slot: Slot, key: &mut Option<K>);
    /// The same, and its failures are forgotten.
    fn succeed(&self, slot: Slot, key: &mut Option<K>);
    /// Takes the key once the clock has been read. `None` if there was no key.
    fn retry_after(&self, slot: Slot, key: &mut Option<K>, delay: Duration) -> Option<Retried>;
    /// Takes the key once the limiter, which is user code, has been asked; it is not, if there is a
    /// delay. `None` if there was no key.
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

/// A key that this worker holds: no other worker gets it until it is let go.
///
/// Dropping it means done, also by a panic. If the key was added meanwhile, it is ready again then.
/// In a queue with back-off ([`Retrying`](crate::Retrying)) a drop leaves the key's failures as
/// they are, until they expire: say [`succeed`](Held::succeed) or [`retry`](Held::retry).
///
/// It borrows the queue, as a lock's guard borrows the lock, and can go to another thread; to where
/// the queue cannot be borrowed, as [`into_owned`](Held::into_owned). One that is leaked
/// (`std::mem::forget`) holds its key for ever, and no drain finishes.
///
/// ```
/// use dedup_queue::DedupQueue;
///
/// let queue = DedupQueue::<&str>::new();
/// queue.add("a")?;
/// let held = queue.get()?;
/// queue.add("a")?; // Again, while it is held.
/// assert!(queue.try_get().is_err(), "no other worker gets it");
/// drop(held);
/// assert_eq!(*queue.try_get()?, "a");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "processing")]
#[must_use = "dropping it means that the key is done"]
pub struct Held<'q, K: Key, L: Layer = Plain> {
    queue: QueueRef<'q, K>,
    /// There until it is let go.
    key: Option<K>,
    place: Place,
    layer: PhantomData<fn() -> L>,
}

/// What ties a guard to its queue.
///
/// Borrowed where that will do: a share is counted up and down by two atomic read-modify-writes, at
/// a place that all workers write to. That is as much as one of a key's three sections.
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

    /// The key.
    #[expect(clippy::missing_panics_doc, reason = "it cannot")]
    pub fn key(&self) -> &K {
        self.key.as_ref().expect("a key is taken with its guard")
    }

    /// The same guard, with a share of the queue in place of a borrow: it keeps the queue alive,
    /// and can go anywhere.
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

    /// The same as dropping it.
    #[doc(alias = "Done")]
    pub fn done(self) {
        drop(self);
    }
}

impl<K: Key, L: Delays> Held<'_, K, L> {
    /// Done for now: to be delivered again after `delay`, whether it failed or not. No failure is
    /// counted.
    ///
    /// If the key was added meanwhile it is ready at once; if it was delayed to an earlier time, it
    /// keeps that.
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
        retried.unwrap_or(Retried::Ready) // A key is taken with its guard.
    }
}

impl<K: Key, L: Retries> Held<'_, K, L> {
    /// Done, and well: its failures are forgotten.
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

    /// Failed: the failure is counted, and the key delivered again when the limiter says. In one
    /// step, so no other worker gets the key in between.
    ///
    /// If it was delivered before the back-off of its last failure was over, because it was added
    /// meanwhile, this was an extra try: no failure is counted, the limiter is not asked, and the key
    /// goes back to wait for the rest of that back-off. So events have a key tried at once, but neither
    /// lengthen its back-off nor bring it nearer to its last attempt. A try that lasts until the
    /// back-off is over counts.
    ///
    /// If this was the last attempt of those it has, the key is forgotten instead, and the
    /// dead-letter hook called on this thread; what the hook panics with comes out here. A try that is
    /// pending for an earlier failure is taken back then; what was added otherwise is delivered, as if the
    /// key were new.
    ///
    /// ```
    /// use dedup_queue::DedupRetryQueue;
    ///
    /// let queue = DedupRetryQueue::<&str>::new();
    /// queue.add("a")?;
    /// queue.get()?.retry(); // It failed.
    /// assert_eq!(queue.failures(&"a"), 1);
    /// assert_eq!(*queue.get()?, "a", "after a few milliseconds");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the limiter does. The key is done then, and no failure counted.
    #[doc(alias = "AddRateLimited")]
    pub fn retry(self) -> Retried {
        self.retry_failed(None)
    }

    /// Failed, as with [`retry`](Held::retry), and the worker knows better than the limiter when it may
    /// succeed: the failure is counted, and the key delivered again after `delay`. The limiter is not
    /// asked; after the next failure that it is asked for, it counts this one too.
    ///
    /// For a service that says when to come back. Where that is no failure, say
    /// [`retry_after`](Held::retry_after), which counts nothing.
    ///
    /// All else is as with `retry`: the last attempt gives the key up, and an early try is not counted.
    /// It goes back to wait for the rest of its back-off, or for this delay if that is longer.
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
        retried.unwrap_or(Retried::Ready) // A key is taken with its guard.
    }

    /// How often it has failed in a row, not counting the present attempt.
    #[doc(alias = "NumRequeues")]
    pub fn failures(&self) -> u32 {
        self.queue.queue().failures(self.place.slot())
    }

    /// Forgets its failures. It is held as before.
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

//! A key in a worker's hands.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::core::Key;
use crate::layer::{Delays, Layer, Plain, Retries};
use crate::policy::Retried;
use crate::records::Slot;

/// What a guard asks of its queue, whatever its hasher and its clock are.
pub(crate) trait Desk<K>: Send + Sync {
    fn done(&self, slot: Slot, key: K);
    /// The same, and its failures are forgotten.
    fn succeed(&self, slot: Slot, key: K);
    fn retry_after(&self, slot: Slot, key: K, delay: Duration) -> Retried;
    /// Takes the key once the limiter, which is foreign code, has been asked. `None` if there was
    /// no key.
    fn retry(&self, slot: Slot, key: &mut Option<K>, failures: u32) -> Option<Retried>;
    fn failures(&self, slot: Slot) -> u32;
    fn forget(&self, slot: Slot);
}

/// A key that this worker holds: nobody else gets it until it is let go.
///
/// Dropping it means done, also by a panic. If the key was added meanwhile, it is ready again then.
/// In a queue with back-off ([`Retrying`](crate::Retrying)) a drop leaves the key's failures as
/// they are, until they expire: say [`succeed`](Held::succeed) or [`retry`](Held::retry).
///
/// It keeps the queue alive, and can go to another thread. One that is leaked
/// (`std::mem::forget`) holds its key for ever, and no drain finishes.
#[must_use = "dropping it means that the key is done"]
pub struct Held<K: Key, L: Layer = Plain> {
    desk: Arc<dyn Desk<K>>,
    /// There until it is let go.
    key: Option<K>,
    place: Place,
    layer: PhantomData<fn() -> L>,
}

/// The key's record, and how often the key had failed when it was taken.
///
/// One word: a guard is moved right after it is made, and what was written in two pieces cannot be
/// read as one before it has reached the cache.
#[derive(Clone, Copy)]
struct Place(u64);

impl Place {
    #[inline]
    fn new(slot: Slot, failures: u32) -> Self {
        Self(u64::from(slot) | u64::from(failures) << 32)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    fn slot(self) -> Slot {
        self.0 as Slot
    }

    fn failures(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl<K: Key, L: Layer> Held<K, L> {
    #[inline]
    pub(crate) fn new(desk: Arc<dyn Desk<K>>, key: K, slot: Slot, failures: u32) -> Self {
        Self {
            desk,
            key: Some(key),
            place: Place::new(slot, failures),
            layer: PhantomData,
        }
    }

    /// The key.
    #[expect(clippy::missing_panics_doc, reason = "it cannot")]
    pub fn key(&self) -> &K {
        self.key
            .as_ref()
            .expect("whoever takes the key has taken the guard")
    }

    /// The same as dropping it.
    pub fn done(self) {
        drop(self);
    }
}

impl<K: Key, L: Delays> Held<K, L> {
    /// Done for now: to be delivered again after `delay`, whether it failed or not. No failure is
    /// counted.
    ///
    /// If the key was added meanwhile it is ready at once; if it was delayed to an earlier time, it
    /// keeps that.
    pub fn retry_after(mut self, delay: Duration) -> Retried {
        match self.key.take() {
            Some(key) => self.desk.retry_after(self.place.slot(), key, delay),
            None => Retried::Ready, // Whoever takes the key has taken the guard.
        }
    }
}

impl<K: Key, L: Retries> Held<K, L> {
    /// Done, and well: its failures are forgotten.
    pub fn succeed(mut self) {
        if let Some(key) = self.key.take() {
            self.desk.succeed(self.place.slot(), key);
        }
    }

    /// Failed: the failure is counted, and the key delivered again when the limiter says. In one
    /// step, so nobody gets the key in between.
    ///
    /// If this was the last attempt of those it has, the key is forgotten instead, and the
    /// dead-letter hook called on this thread; what the hook panics with comes out here.
    ///
    /// # Panics
    /// If the limiter does. The key is done then, and no failure counted.
    #[doc(alias = "AddRateLimited")]
    pub fn retry(mut self) -> Retried {
        let retried = self
            .desk
            .retry(self.place.slot(), &mut self.key, self.place.failures());
        retried.unwrap_or(Retried::Ready) // Whoever takes the key has taken the guard.
    }

    /// How often it has failed in a row, not counting the present attempt.
    #[doc(alias = "NumRequeues")]
    pub fn failures(&self) -> u32 {
        self.desk.failures(self.place.slot())
    }

    /// Forgets its failures. It is held as before.
    pub fn forget(&self) {
        self.desk.forget(self.place.slot());
    }
}

impl<K: Key, L: Layer> Deref for Held<K, L> {
    type Target = K;

    fn deref(&self) -> &K {
        self.key()
    }
}

impl<K: Key, L: Layer> Drop for Held<K, L> {
    #[inline]
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.desk.done(self.place.slot(), key);
        }
    }
}

impl<K: Key + fmt::Debug, L: Layer> fmt::Debug for Held<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(self.key()).finish()
    }
}

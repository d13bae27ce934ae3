//! Adding keys: look-up, then insertion, merging or rejection.

use std::time::Duration;

use sync_shim::Clock;
use sync_shim::foreign::drop_quietly;

use crate::core::{Core, Hasher, Key};
use crate::error::ShutDown;
use crate::keys::{Keys, Pair};
use crate::lock::StateGuard;
use crate::metrics::Metrics;
use crate::policy::Added;
use crate::records::{Lane, Slot};
use crate::state::State;

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    /// Returns the key's hash, and the key with its clone for a guard.
    #[inline]
    pub(crate) fn prepare(&self, key: K) -> (u64, Pair<K>) {
        // USER CODE: the key's `Hash` and `Clone`. A panic comes out before anything has changed.
        let hash = self.hasher.hash_one(&key);
        let twin = key.clone();
        (hash, Some((key, twin)))
    }

    #[inline]
    pub(crate) fn add(&self, key: K) -> Result<Added, ShutDown<K>> {
        // USER CODE: the key's `Hash` and `Clone`, and below, under the lock, its `Eq`, which must not use the queue.
        let hash = self.hasher.hash_one(&key);
        let twin = key.clone();
        let mut state = self.state.lock();
        let found = state.keys.find(hash, |other| *other == key);
        if !state.keys.has_fast_adds() {
            return self.add_slow(found, hash, key, twin, state);
        }
        let Some(slot) = found else {
            state.keys.add_fast(hash, key, twin);
            return Ok(Added::New);
        };
        let added = state.keys.add_known(slot, Lane::Normal);
        drop(state);
        drop_pair((key, twin));
        Ok(added)
    }

    /// Takes the guard of the state last, so that it is dropped first if the clock panics: keys
    /// must not be dropped under the lock.
    fn add_slow(
        &self,
        found: Option<Slot>,
        hash: u64,
        key: K,
        twin: K,
        mut state: StateGuard<'_, State<K>>,
    ) -> Result<Added, ShutDown<K>> {
        self.tick(&mut state);
        if !state.is_open() {
            self.settle(state);
            // USER CODE: the drop of the copy of a key that was merged or refused.
            drop_quietly(twin);
            return Err(ShutDown(key));
        }
        let Some(slot) = state.keys.still(found) else {
            state.keys.add_new(hash, key, twin, Lane::Normal);
            self.settle(state);
            return Ok(Added::New);
        };
        let added = state.keys.add_known(slot, Lane::Normal);
        self.settle(state);
        drop_pair((key, twin));
        Ok(added)
    }

    pub(crate) fn add_low(&self, key: K) -> Result<Added, ShutDown<K>> {
        let known = |keys: &mut Keys<K>, slot| keys.add_known(slot, Lane::Low);
        self.add_with(key, None, Lane::Low, known)
    }

    /// Compares the back-off with `now`, the caller's reading of the clock.
    pub(crate) fn add_yielding(&self, key: K, now: u64, lane: Lane) -> Result<Added, ShutDown<K>> {
        let known = |keys: &mut Keys<K>, slot| keys.add_yielding(slot, lane);
        self.add_with(key, Some(now), lane, known)
    }

    /// Adds the key by `known` if it has a record.
    fn add_with(
        &self,
        key: K,
        now: Option<u64>,
        lane: Lane,
        known: impl FnOnce(&mut Keys<K>, Slot) -> Added,
    ) -> Result<Added, ShutDown<K>> {
        let (hash, mut pair) = self.prepare(key);
        let added = self.update(|state| {
            let found = state.keys.find(hash, |key| is_in(key, pair.as_ref()));
            match now {
                Some(now) => state.keys.advance(now),
                None => self.tick(state),
            }
            if !state.is_open() {
                return None;
            }
            if let Some(slot) = state.keys.still(found) {
                return Some(known(&mut state.keys, slot));
            }
            let (key, twin) = pair.take()?;
            state.keys.add_new(hash, key, twin, lane);
            Some(Added::New)
        });
        settled_with(added, pair)
    }

    pub(crate) fn add_after(
        &self,
        key: K,
        delay: Duration,
        lane: Lane,
    ) -> Result<Added, ShutDown<K>> {
        let now = self.clock.now();
        let due = self.epoch.after(now, delay);
        self.add_later(key, due, self.epoch.nanos(now), lane)
    }

    /// `due` was computed from `now`, the caller's reading of the clock.
    pub(crate) fn add_later(
        &self,
        key: K,
        due: u64,
        now: u64,
        lane: Lane,
    ) -> Result<Added, ShutDown<K>> {
        let (hash, mut pair) = self.prepare(key);
        let added = self.update(|state| {
            let found = state.keys.find(hash, |key| is_in(key, pair.as_ref()));
            state.keys.advance(now);
            state
                .is_open()
                .then(|| state.keys.add_after(found, hash, &mut pair, due, lane))
        });
        let added = settled_with(added, pair)?;
        self.with_metrics(Metrics::retries_total);
        Ok(added)
    }
}

#[inline]
pub(crate) fn is_in<K: Eq>(key: &K, pair: Option<&(K, K)>) -> bool {
    pair.is_some_and(|(other, _)| key == other)
}

/// Converts the result of an add, whose pair was taken, not needed, or rejected.
pub(crate) fn settled_with<K, T>(added: Option<T>, pair: Pair<K>) -> Result<T, ShutDown<K>> {
    match (added, pair) {
        (Some(added), pair) => {
            if let Some(pair) = pair {
                drop_pair(pair);
            }
            Ok(added)
        }
        (None, pair) => {
            let (key, twin) = pair.expect("the pair of a rejected add was not taken");
            // USER CODE: the drop of the copy of a key that was merged or refused.
            drop_quietly(twin);
            Err(ShutDown(key))
        }
    }
}

/// Drops a key and its clone separately: a panic in one drop while the other unwinds would abort
/// the process. The lock is free.
#[inline]
fn drop_pair<K>((key, twin): (K, K)) {
    if std::mem::needs_drop::<K>() {
        // USER CODE: the drops of a merged key and of its copy.
        drop_quietly(key);
        drop_quietly(twin);
    }
}

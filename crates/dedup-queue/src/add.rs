//! Adding keys: looked up, entered, merged or refused.

use sync_shim::Clock;

use crate::core::{Core, Hasher, Key};
use crate::error::ShutDown;
use crate::keys::Pair;
use crate::lock::StateGuard;
use crate::metrics::Metrics;
use crate::policy::Added;
use crate::records::Slot;
use crate::state::State;

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    /// The key's hash; the key, and its twin for a guard.
    #[inline]
    pub(crate) fn prepare(&self, key: K) -> (u64, Pair<K>) {
        let hash = self.hasher.hash_one(&key);
        let twin = key.clone();
        (hash, Some((key, twin)))
    }

    #[inline]
    pub(crate) fn add(&self, key: K) -> Result<Added, ShutDown<K>> {
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
        let added = state.keys.add_known(slot);
        drop(state); // Before the key and its twin, which were not needed.
        Ok(added)
    }

    /// The state comes last, so that it is dropped first if the clock panics: keys are not dropped
    /// under the lock.
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
            return Err(ShutDown(key));
        }
        let Some(slot) = state.keys.still(found) else {
            state.keys.add_new(hash, key, twin);
            self.settle(state);
            return Ok(Added::New);
        };
        let added = state.keys.add_known(slot);
        self.settle(state);
        Ok(added)
    }

    /// `now` is the caller's reading of the clock, by which the back-off is over or not.
    pub(crate) fn add_yielding(&self, key: K, now: u64) -> Result<Added, ShutDown<K>> {
        let (hash, mut pair) = self.prepare(key);
        let added = self.update(|state| {
            let found = state.keys.find(hash, |key| is_in(key, pair.as_ref()));
            state.keys.advance(now);
            if !state.is_open() {
                return None;
            }
            if let Some(slot) = state.keys.still(found) {
                return Some(state.keys.add_yielding(slot));
            }
            let (key, twin) = pair.take()?;
            state.keys.add_new(hash, key, twin);
            Some(Added::New)
        });
        added.ok_or_else(|| refused(pair))
    }

    /// `due` was computed from the caller's reading of the clock, `now`.
    pub(crate) fn add_later(&self, key: K, due: u64, now: u64) -> Result<Added, ShutDown<K>> {
        let (hash, mut pair) = self.prepare(key);
        let added = self.update(|state| {
            let found = state.keys.find(hash, |key| is_in(key, pair.as_ref()));
            state.keys.advance(now);
            state
                .is_open()
                .then(|| state.keys.add_after(found, hash, &mut pair, due))
        });
        let added = added.ok_or_else(|| refused(pair))?;
        self.with_metrics(Metrics::retries_total);
        Ok(added)
    }
}

/// Whether it is the key of this pair.
#[inline]
pub(crate) fn is_in<K: Eq>(key: &K, pair: Option<&(K, K)>) -> bool {
    pair.is_some_and(|(other, _)| key == other)
}

pub(crate) fn refused<K>(pair: Pair<K>) -> ShutDown<K> {
    let (key, _twin) = pair.expect("what was refused was not taken");
    ShutDown(key)
}

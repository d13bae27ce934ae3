//! Releasing keys.

use std::sync::Arc;
use std::time::Duration;

use sync_shim::Clock;
use sync_shim::foreign::{discard, drop_quietly, guarded};

use crate::core::{Core, Hasher, Key};
use crate::held::GuardOps;
use crate::keys::Ending;
use crate::lock::StateGuard;
use crate::policy::Retried;
use crate::records::Slot;
use crate::state::State;

impl<K: Key, S: Hasher, C: Clock> GuardOps<K> for Core<K, S, C> {
    fn share(&self) -> Arc<dyn GuardOps<K>> {
        let share = self.me.upgrade();
        share.expect("a borrow keeps the queue alive")
    }

    fn done(&self, slot: Slot, key: &mut Option<K>) {
        self.finish(slot, key, false);
    }

    fn succeed(&self, slot: Slot, key: &mut Option<K>) {
        self.finish(slot, key, true);
    }

    fn retry_after(&self, slot: Slot, key: &mut Option<K>, delay: Duration) -> Option<Retried> {
        let now = self.clock.now();
        let key = key.take()?; // Not earlier: if the clock panics, the guard's drop releases the key.
        let due = self.epoch.after(now, delay);
        let ending = Ending::Again { due };
        let (ended, is_open) = self.update(|state| {
            state.keys.advance(self.epoch.nanos(now));
            (state.keys.finish(slot, key, ending), state.is_open())
        });
        Some(self.note_again(ended, is_open, delay))
    }

    fn retry(
        &self,
        slot: Slot,
        key: &mut Option<K>,
        failures: u32,
        delay: Option<Duration>,
    ) -> Option<Retried> {
        self.retry_held(slot, key, failures, delay)
    }

    fn failures(&self, slot: Slot) -> u32 {
        self.update(|state| {
            self.tick(state);
            state.keys.failures_of_held(slot)
        })
    }

    fn forget(&self, slot: Slot) {
        self.update(|state| {
            self.tick(state);
            state.keys.forget(slot);
        });
    }
}

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    /// Records that a key was released after it had been held for `worked`.
    #[inline]
    pub(crate) fn note_worked(&self, worked: u64) {
        self.with_metrics(|metrics, name| {
            // USER CODE: `Metrics`: the key is let go by then.
            metrics.work_duration_seconds(name, Duration::from_nanos(worked));
        });
    }

    #[inline]
    fn finish(&self, slot: Slot, key: &mut Option<K>, forget: bool) {
        let mut state = self.state.lock();
        if !state.is_settled() {
            return self.finish_slow(slot, key, forget, state);
        }
        let Some(own) = state.keys.finish_fast(slot, forget) else {
            return self.finish_slow(slot, key, forget, state);
        };
        drop(state);
        if std::mem::needs_drop::<K>() {
            // USER CODE: the drop of the worker's copy: the key is let go.
            drop_quietly(own);
        }
        *key = None;
    }

    fn finish_slow(
        &self,
        slot: Slot,
        key: &mut Option<K>,
        forget: bool,
        mut state: StateGuard<'_, State<K>>,
    ) {
        let ending = if forget { Ending::Forget } else { Ending::Done };
        // A panicking clock must not keep the key from being released: time then stands still.
        let ticked = guarded(|| {
            if state.keys.may_expire(slot) {
                self.read_time(&mut state);
            } else {
                self.tick(&mut state);
            }
        });
        let Some(key) = key.take() else {
            return; // Cannot happen: the guard has its key until it is dropped.
        };
        let ended = state.keys.finish(slot, key, ending);
        self.settle(state);
        if let Err(payload) = ticked {
            discard(payload);
        }
        self.note_worked(ended.worked);
        // USER CODE: the drop of the worker's copy: the key is let go. A panic is the caller's.
        drop(ended.key);
    }
}

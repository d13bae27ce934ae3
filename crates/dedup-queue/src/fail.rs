//! Counting failures, and their consequences.
//!
//! The limiter is user code, so it is called with the lock free, for the count that was read
//! before. The section that counts compares: if other threads have counted or forgotten failures in
//! the meantime, the limiter is called again.

use std::time::{Duration, Instant};

use sync_shim::Clock;
use sync_shim::foreign::drop_quietly;

use crate::add::{is_in, settled_with};
use crate::core::{Core, Hasher, Key};
use crate::error::ShutDown;
use crate::keys::{Ended, Ending, time_left};
use crate::metrics::Metrics;
use crate::policy::Retried;
use crate::records::Slot;

/// Consequences of a failure.
#[derive(Clone, Copy)]
struct Plan {
    /// The number of failures, including this one.
    failures: u32,
    /// The delay, and when it ends. `None`: the key is given up.
    retry: Option<(Duration, u64)>,
    now: u64,
}

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    /// Counts a failure of the key, and adds it for a retry. If the key waits for an attempt already, does neither, and
    /// does not call the limiter: the attempt serves both.
    pub(crate) fn add_failed(&self, key: K) -> Result<Retried, ShutDown<K>> {
        let (hash, mut pair) = self.prepare(key);
        let mut failures = self.update(|state| {
            let found = state.keys.find(hash, |key| is_in(key, pair.as_ref()));
            self.tick(state);
            let keys = &state.keys;
            state
                .is_open()
                .then(|| keys.waits(found).ok_or_else(|| keys.failures(found)))
        });
        let mut plan = None;
        while let Some(waits) = failures {
            let known = match waits {
                Ok(retried) => return settled_with(Some(retried), pair),
                Err(known) => known,
            };
            if let Some((key, _)) = &pair {
                let now = self.clock.now();
                plan = Some(self.plan(key, known.saturating_add(1), now, None));
            }
            let Some(Plan {
                failures: count,
                retry,
                now,
            }) = plan
            else {
                break;
            };
            let counted = self.update(|state| {
                let found = state.keys.find(hash, |key| is_in(key, pair.as_ref()));
                state.keys.advance(now);
                if !state.is_open() {
                    return Err(None);
                }
                if let Some(retried) = state.keys.waits(found) {
                    return Err(Some(Ok(retried))); // Added in the meantime.
                }
                let current = state.keys.failures(found);
                if current != known {
                    return Err(Some(Err(current))); // Counted or forgotten in the meantime.
                }
                Ok(match retry {
                    None => {
                        state.keys.give_up(found);
                        Retried::GivenUp
                    }
                    Some((delay, due)) => {
                        if state.keys.add_failed(found, hash, &mut pair, due, count) {
                            Retried::Ready
                        } else {
                            Retried::After(delay)
                        }
                    }
                })
            });
            match counted {
                Err(current) => failures = current,
                Ok(retried) => {
                    if retried == Retried::GivenUp {
                        let key = pair.map(|(key, twin)| {
                            drop_quietly(twin);
                            key
                        });
                        self.give_up(key, count);
                        return Ok(retried);
                    }
                    self.with_metrics(Metrics::retries_total);
                    return settled_with(Some(retried), pair);
                }
            }
        }
        settled_with(None, pair)
    }

    /// Returns the consequences of the key's `failures`-th failure. The delay is `said` by the
    /// worker, or else the limiter's. May run user code, so no lock may be held.
    fn plan(&self, key: &K, failures: u32, now: Instant, said: Option<Duration>) -> Plan {
        let most = self.config.max_attempts;
        let retry = if most.is_some_and(|most| failures >= most.get()) {
            None
        } else {
            // USER CODE: `RateLimiter::delay`, by the holder of the key or by an adder. A panic leaves the key done and nothing counted.
            let delay = said.unwrap_or_else(|| self.config.limiter.delay(key, failures, now));
            Some((delay, self.epoch.after(now, delay)))
        };
        Plan {
            failures,
            retry,
            now: self.epoch.nanos(now),
        }
    }

    fn give_up(&self, key: Option<K>, failures: u32) {
        // USER CODE: the dead-letter hook and the drop of its key, which is let go by then. A panic is the caller's.
        match (&self.config.dead_letter, key) {
            (Some(hook), Some(key)) => hook(key, failures),
            (_, key) => _ = drop_quietly(key),
        }
    }

    /// Counts a failure of a held key, and releases it. Takes the key after the limiter has been
    /// called, unless the worker has `said` a delay.
    pub(crate) fn retry_held(
        &self,
        slot: Slot,
        key: &mut Option<K>,
        mut failures: u32,
        said: Option<Duration>,
    ) -> Option<Retried> {
        // One reading serves both comparisons: a reading costs as much as a section.
        let mut now = self.clock.now();
        if failures > 0
            && let Some(retried) = self.retry_early(slot, key, failures, now, said)
        {
            return Some(retried);
        }
        loop {
            let plan = self.plan(key.as_ref()?, failures.saturating_add(1), now, said);
            // A key that is given up may be dirty: then the queue keeps this one.
            let for_hook = match (&plan.retry, &self.config.dead_letter) {
                // USER CODE: the key's `Clone`, by its holder. A panic leaves the key done and nothing counted.
                (None, Some(_)) => key.clone(),
                _ => None,
            };
            let ending = match plan.retry {
                None => Ending::GiveUp,
                Some((_, due)) => Ending::Failed {
                    due,
                    failures: plan.failures,
                },
            };
            let counted = self.update(|state| {
                state.keys.advance(plan.now);
                let current = state.keys.failures_of_held(slot);
                if current != failures {
                    return Err(Some(current)); // Counted or forgotten in the meantime.
                }
                let key = key.take().ok_or(None)?;
                Ok((state.keys.finish(slot, key, ending), state.is_open()))
            });
            match counted {
                Err(current) => {
                    failures = current?;
                    now = self.clock.now(); // The limiter may have taken some time.
                }
                Ok((ended, is_open)) => {
                    let Some((delay, _)) = plan.retry else {
                        self.note_worked(ended.worked);
                        drop(ended.key);
                        self.give_up(for_hook, plan.failures);
                        return Some(Retried::GivenUp);
                    };
                    return Some(self.note_again(ended, is_open, delay));
                }
            }
        }
    }

    /// Returns a key that was delivered before its back-off was over to its back-off, because it
    /// was added in the meantime: this was an extra attempt. No failure is counted, and the
    /// back-off changes only if the worker has `said` a longer one. So adds do not lengthen the
    /// time until the next retry. Returns `None` if the back-off is over, or if failures were
    /// counted elsewhere since the key was taken.
    fn retry_early(
        &self,
        slot: Slot,
        key: &mut Option<K>,
        failures: u32,
        now: Instant,
        said: Option<Duration>,
    ) -> Option<Retried> {
        let least = said.map_or(0, |delay| self.epoch.after(now, delay));
        let now = self.epoch.nanos(now);
        let (ended, is_open, due) = self.update(|state| {
            let (current, due) = state.keys.backoff_of_held(slot);
            if current != failures || due <= now {
                return None;
            }
            let due = due.max(least);
            state.keys.advance(now);
            let key = key.take()?;
            let ending = Ending::Failed { due, failures };
            let ended = state.keys.finish(slot, key, ending);
            Some((ended, state.is_open(), due))
        })?;
        Some(self.note_again(ended, is_open, time_left(due, now)))
    }

    /// Records that a key was released and will be delivered again.
    pub(crate) fn note_again(&self, ended: Ended<K>, is_open: bool, delay: Duration) -> Retried {
        let is_ready = ended.ready;
        self.note_worked(ended.worked);
        // USER CODE: the drop of the worker's copy: the key is let go. A panic is the caller's.
        drop(ended.key);
        self.with_metrics(Metrics::retries_total);
        if is_ready {
            Retried::Ready
        } else if is_open {
            Retried::After(delay)
        } else {
            Retried::Left
        }
    }
}

//! The queue itself: its lock, its clock, its settings, and the sections run under the lock.
//!
//! # Invariants
//! 1. Under the lock of no other code than `Eq` of keys runs, and the clock's `now`.
//! 2. Whatever a section owes to others is done by the thread that ran it, before its call
//!    returns.

use std::hash::{BuildHasher, Hash};
use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use delay_queue::epoch::Epoch;
use delay_queue::takers::Arming;
use sync_shim::Clock;
use sync_shim::foreign::{discard, drop_quietly, guarded};

use crate::error::ShutDown;
use crate::held::Desk;
use crate::keys::{Ended, Ending, Keys, Noted, Pair, Settings, Taken};
use crate::limiter::RateLimiter;
use crate::lock::{StateGuard, StateLock};
use crate::metrics::Metrics;
use crate::policy::{Added, Retried};
use crate::records::Slot;
use crate::state::{Debts, State};

/// What can be a key. Implemented by everything that has the bounds.
///
/// Keys are cheap to clone: each is cloned once when it is added. `Eq` of keys runs under the
/// queue's lock, so it must not call the queue; a panic there changes nothing. `Hash`, `Clone` and
/// `Drop` run outside.
pub trait Key: Eq + Hash + Clone + Send + 'static {}
impl<K: Eq + Hash + Clone + Send + 'static> Key for K {}

/// What can hash keys. Implemented by everything that has the bounds.
pub trait Hasher: BuildHasher + Send + Sync + 'static {}
impl<S: BuildHasher + Send + Sync + 'static> Hasher for S {}

/// Is told of keys that are given up, and of how often each has failed.
pub(crate) type DeadLetter<K> = Box<dyn Fn(K, u32) + Send + Sync>;

/// What is settled when a queue is built, beside the [`Settings`] of its keys.
pub(crate) struct Config<K> {
    pub(crate) name: Box<str>,
    pub(crate) limiter: Box<dyn RateLimiter<K>>,
    pub(crate) max_attempts: Option<NonZeroU32>,
    pub(crate) dead_letter: Option<DeadLetter<K>>,
    pub(crate) metrics: Option<Box<dyn Metrics>>,
}

pub(crate) struct Core<K, S, C> {
    state: StateLock<State<K>>,
    pub(crate) hasher: S,
    pub(crate) clock: C,
    pub(crate) epoch: Epoch,
    pub(crate) config: Config<K>,
    /// Tells this queue that its alarm has rung.
    alarm_bell: Waker,
}

/// Does not keep the queue alive: an alarm may be set for a time far away.
struct AlarmBell<K, S, C>(Weak<Core<K, S, C>>);

impl<K: Key, S: Hasher, C: Clock> Wake for AlarmBell<K, S, C> {
    fn wake(self: Arc<Self>) {
        if let Some(core) = self.0.upgrade() {
            core.alarm_rang();
        }
    }
}

/// What follows a failure.
#[derive(Clone, Copy)]
struct Plan {
    /// It is the so-manieth.
    failures: u32,
    /// The delay, and when it ends. `None`: the key is given up.
    retry: Option<(Duration, u64)>,
    now: u64,
}

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    pub(crate) fn new(hasher: S, clock: C, settings: Settings, config: Config<K>) -> Arc<Self> {
        Arc::new_cyclic(|core: &Weak<Self>| Self {
            state: StateLock::new(State::new(settings)),
            hasher,
            epoch: Epoch::new(clock.now()),
            clock,
            config,
            alarm_bell: Waker::from(Arc::new(AlarmBell(Weak::clone(core)))),
        })
    }

    /// Runs a section under the lock, and then does what it owes.
    #[inline]
    pub(crate) fn section<R>(&self, change: impl FnOnce(&mut State<K>) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        if !state.is_settled() {
            self.settle(state);
        }
        result
    }

    #[cold]
    fn settle(&self, mut state: StateGuard<'_, State<K>>) {
        let debts = state.settle();
        drop(state);
        self.pay(debts);
    }

    /// May run foreign code, so no lock may be held.
    fn pay(&self, debts: Debts<K>) {
        debts.calls.ring();
        if let Some(arming) = debts.arming {
            self.arm(arming);
        }
        if let Some(ended) = debts.drains {
            self.tell_drainers(ended);
        }
        self.report(debts.noted);
        for (key, twin) in debts.gone {
            drop_quietly(key);
            drop_quietly(twin);
        }
    }

    fn report(&self, noted: Noted) {
        if noted.adds > 0 {
            self.tell(|metrics, name| metrics.adds_total(name, noted.adds));
        }
        if noted.depth != 0 {
            self.tell(|metrics, name| metrics.depth(name, noted.depth));
        }
    }

    /// Tells the metrics, if there are any.
    #[inline]
    pub(crate) fn tell(&self, what: impl FnOnce(&dyn Metrics, &str)) {
        if let Some(metrics) = &self.config.metrics {
            self.tell_some(&**metrics, what);
        }
    }

    #[cold]
    fn tell_some(&self, metrics: &dyn Metrics, what: impl FnOnce(&dyn Metrics, &str)) {
        // Metrics may panic; it is none of the queue's business.
        if let Err(payload) = guarded(|| what(metrics, &self.config.name)) {
            discard(payload);
        }
    }

    #[cold]
    fn arm(&self, arming: Arming) {
        let alarm = match self.epoch.instant(arming.at) {
            Some(when) => self.clock.wake_at(when, self.alarm_bell.clone()),
            None => Err(io::Error::other("no clock tells this time")),
        };
        let mut calls = delay_queue::calls::Calls::none();
        let stale = self.state.lock().takers.armed(&arming, alarm, &mut calls);
        calls.ring();
        drop(stale); // The clock's code: the lock is free.
    }

    fn alarm_rang(&self) {
        let now = self.now();
        let spent = self.section(|state| {
            state.keys.advance(now);
            state.takers.rung(now)
        });
        drop(spent); // As above.
    }

    pub(crate) fn now(&self) -> u64 {
        self.epoch.nanos(self.clock.now())
    }

    /// Moves what is due, if anything can be. Every section begins so, once it has compared keys.
    #[inline(always)]
    pub(crate) fn tick(&self, state: &mut State<K>) {
        if state.keys.needs_time() {
            self.read_time(state);
        }
    }

    fn read_time(&self, state: &mut State<K>) {
        state.keys.advance(self.now());
    }

    /// The key's hash; the key, and its twin for a guard.
    #[inline]
    fn prepare(&self, key: K) -> (u64, Pair<K>) {
        let hash = self.hasher.hash_one(&key);
        let twin = key.clone();
        (hash, Some((key, twin)))
    }

    /// Takes the key that has been ready longest, if there is one. What nearly every `get` comes
    /// to, so it is kept short, and its result is moved nowhere.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<Taken<K>> {
        let mut state = self.state.lock();
        self.tick(&mut state);
        let taken = state.keys.take();
        if !state.is_settled() {
            self.settle(state);
        }
        taken
    }

    #[inline]
    pub(crate) fn add(&self, key: K) -> Result<Added, ShutDown<K>> {
        let hash = self.hasher.hash_one(&key);
        let twin = key.clone();
        let mut state = self.state.lock();
        let found = state.keys.find(hash, |other| *other == key);
        self.tick(&mut state);
        if !state.is_open() {
            self.settle(state);
            return Err(ShutDown(key));
        }
        let Some(slot) = state.keys.still(found) else {
            state.keys.add_new(hash, key, twin);
            if !state.is_settled() {
                self.settle(state);
            }
            return Ok(Added::New);
        };
        let added = state.keys.add_known(slot);
        if !state.is_settled() {
            self.settle(state);
        } else {
            drop(state); // Before the key and its twin, which were not needed.
        }
        Ok(added)
    }

    /// `due` was computed from the caller's reading of the clock, `now`.
    pub(crate) fn add_later(&self, key: K, due: u64, now: u64) -> Result<Added, ShutDown<K>> {
        let (hash, mut pair) = self.prepare(key);
        let added = self.section(|state| {
            let found = state.keys.find(hash, |key| is_in(key, &pair));
            state.keys.advance(now);
            state
                .is_open()
                .then(|| state.keys.add_after(found, hash, &mut pair, due))
        });
        let added = added.ok_or_else(|| refused(pair))?;
        self.tell(|metrics, name| metrics.retries_total(name));
        Ok(added)
    }

    /// Counts a failure of the key, and adds it to be tried again.
    pub(crate) fn add_failed(&self, key: K) -> Result<Retried, ShutDown<K>> {
        let (hash, mut pair) = self.prepare(key);
        let mut failures = self.section(|state| {
            let found = state.keys.find(hash, |key| is_in(key, &pair));
            self.tick(state);
            state.is_open().then(|| state.keys.failures(found))
        });
        let mut plan = None;
        while let Some(known) = failures {
            if let Some((key, _)) = &pair {
                plan = Some(self.plan(key, known.saturating_add(1)));
            }
            let Some(Plan {
                failures: count,
                retry,
                now,
            }) = plan
            else {
                break;
            };
            let counted = self.section(|state| {
                let found = state.keys.find(hash, |key| is_in(key, &pair));
                state.keys.advance(now);
                if !state.is_open() {
                    return Err(None);
                }
                let current = state.keys.failures(found);
                if current != known {
                    return Err(Some(current)); // Counted or forgotten meanwhile.
                }
                Ok(match retry {
                    None => {
                        state.keys.forget_found(found);
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
                        self.give_up(pair.map(|(key, _)| key), count);
                    } else {
                        self.tell(|metrics, name| metrics.retries_total(name));
                    }
                    return Ok(retried);
                }
            }
        }
        Err(refused(pair))
    }

    /// What follows the key's failure, which is its `failures`-th. May run foreign code, so no
    /// lock may be held.
    fn plan(&self, key: &K, failures: u32) -> Plan {
        let now = self.clock.now();
        let most = self.config.max_attempts;
        let retry = if most.is_some_and(|most| failures >= most.get()) {
            None
        } else {
            let delay = self.config.limiter.delay(key, failures, now);
            Some((delay, self.epoch.after(now, delay)))
        };
        Plan {
            failures,
            retry,
            now: self.epoch.nanos(now),
        }
    }

    fn give_up(&self, key: Option<K>, failures: u32) {
        if let (Some(hook), Some(key)) = (&self.config.dead_letter, key) {
            hook(key, failures);
        }
    }

    /// Runs a section on the key's record, if it has one.
    pub(crate) fn on_found<R>(
        &self,
        hash: u64,
        is: impl FnMut(&K) -> bool,
        change: impl FnOnce(&mut Keys<K>, Option<Slot>) -> R,
    ) -> R {
        self.section(|state| {
            let found = state.keys.find(hash, is);
            match found {
                Some(slot) if state.keys.may_expire(slot) => self.read_time(state),
                _ => self.tick(state),
            }
            change(&mut state.keys, found)
        })
    }

    /// Adds are refused from now on, and drains end.
    pub(crate) fn shut_down(&self) -> bool {
        let (was_open, ended) = self.section(|state| {
            self.tick(state); // What has fallen due is delivered.
            let was_open = state.is_open();
            (was_open, state.shut_down())
        });
        if let Some(ended) = ended {
            self.tell_drainers(ended);
        }
        was_open
    }

    /// A key was taken.
    #[inline]
    pub(crate) fn note_taken(&self, waited: u64) {
        self.tell(|metrics, name| {
            metrics.queue_duration_seconds(name, Duration::from_nanos(waited));
        });
    }

    /// A key was let go that had been held so long.
    #[inline]
    fn note_worked(&self, worked: u64) {
        self.tell(|metrics, name| {
            metrics.work_duration_seconds(name, Duration::from_nanos(worked));
        });
    }

    #[inline]
    fn finish(&self, slot: Slot, key: K, forget: bool) {
        let mut state = self.state.lock();
        self.tick(&mut state);
        let Some((own, worked)) = state.keys.finish_last(slot, forget) else {
            return self.finish_slow(state, slot, key, forget);
        };
        if state.is_settled() {
            drop(state);
        } else {
            self.settle(state);
        }
        if std::mem::needs_drop::<K>() {
            drop_quietly(own);
        }
        self.note_worked(worked);
        drop(key);
    }

    #[cold]
    fn finish_slow(&self, mut state: StateGuard<'_, State<K>>, slot: Slot, key: K, forget: bool) {
        let ending = if forget { Ending::Forget } else { Ending::Done };
        if state.keys.may_expire(slot) {
            self.read_time(&mut state);
        }
        let ended = state.keys.finish(slot, key, ending);
        self.settle(state);
        self.note_worked(ended.worked);
        drop(ended.key);
    }
}

impl<K: Key, S: Hasher, C: Clock> Desk<K> for Core<K, S, C> {
    fn done(&self, slot: Slot, key: K) {
        self.finish(slot, key, false);
    }

    fn succeed(&self, slot: Slot, key: K) {
        self.finish(slot, key, true);
    }

    fn retry_after(&self, slot: Slot, key: K, delay: Duration) -> Retried {
        let now = self.clock.now();
        let due = self.epoch.after(now, delay);
        let ending = Ending::Again {
            due,
            failures: None,
        };
        let (ended, is_open) = self.section(|state| {
            state.keys.advance(self.epoch.nanos(now));
            (state.keys.finish(slot, key, ending), state.is_open())
        });
        self.note_again(ended, is_open, delay)
    }

    fn retry(&self, slot: Slot, key: &mut Option<K>, mut failures: u32) -> Option<Retried> {
        loop {
            let plan = self.plan(key.as_ref()?, failures.saturating_add(1));
            // A key that is given up may be dirty: then the queue keeps this one.
            let for_hook = match (&plan.retry, &self.config.dead_letter) {
                (None, Some(_)) => key.clone(),
                _ => None,
            };
            let ending = match plan.retry {
                None => Ending::Forget,
                Some((_, due)) => Ending::Again {
                    due,
                    failures: Some(plan.failures),
                },
            };
            let counted = self.section(|state| {
                state.keys.advance(plan.now);
                let current = state.keys.failures_of_held(slot);
                if current != failures {
                    return Err(Some(current)); // Counted or forgotten meanwhile.
                }
                let key = key.take().ok_or(None)?;
                Ok((state.keys.finish(slot, key, ending), state.is_open()))
            });
            match counted {
                Err(current) => failures = current?,
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

    fn failures(&self, slot: Slot) -> u32 {
        self.section(|state| {
            self.tick(state);
            state.keys.failures_of_held(slot)
        })
    }

    fn forget(&self, slot: Slot) {
        self.section(|state| {
            self.tick(state);
            state.keys.forget(slot);
        });
    }
}

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    fn note_again(&self, ended: Ended<K>, is_open: bool, delay: Duration) -> Retried {
        let is_ready = ended.ready;
        self.note_worked(ended.worked);
        drop(ended.key);
        self.tell(|metrics, name| metrics.retries_total(name));
        if is_ready {
            Retried::Ready
        } else if is_open {
            Retried::After(delay)
        } else {
            Retried::Left
        }
    }
}

/// Whether it is the key of this pair.
#[inline]
fn is_in<K: Eq>(key: &K, pair: &Pair<K>) -> bool {
    pair.as_ref().is_some_and(|(other, _)| key == other)
}

fn refused<K>(pair: Pair<K>) -> ShutDown<K> {
    let (key, _twin) = pair.expect("what was refused was not taken");
    ShutDown(key)
}

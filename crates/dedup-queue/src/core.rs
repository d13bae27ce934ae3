//! The queue itself: its lock, its clock, its settings, and the sections run under the lock.
//!
//! # Invariants
//! 1. Under the lock of no other code than `Eq` of keys runs, and the clock's `now`.
//! 2. Whatever a section owes to others is done by the thread that ran it, before its call
//!    returns.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use delay_queue::arming::arm;
use delay_queue::epoch::Epoch;
use delay_queue::takers::Arming;
use sync_shim::Clock;
use sync_shim::foreign::{discard, drop_quietly, guarded};

use crate::held::Place;
use crate::keys::{Keys, Noted, Settings};
use crate::limiter::RateLimiter;
use crate::lock::{StateGuard, StateLock};
use crate::metrics::Metrics;
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

/// Why nothing could be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// Nothing is ready.
    Yet,
    /// Nothing will be.
    Ever,
}

pub(crate) struct Core<K, S, C> {
    pub(crate) state: StateLock<State<K>>,
    pub(crate) hasher: S,
    pub(crate) clock: C,
    pub(crate) epoch: Epoch,
    pub(crate) config: Config<K>,
    /// Tells this queue that its alarm has rung.
    alarm_bell: Waker,
    /// Itself: whoever borrows the queue can have a share.
    pub(crate) me: Weak<Self>,
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

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    pub(crate) fn new(hasher: S, clock: C, settings: Settings, config: Config<K>) -> Arc<Self> {
        Arc::new_cyclic(|core: &Weak<Self>| Self {
            state: StateLock::new(State::new(settings)),
            hasher,
            epoch: Epoch::new(clock.now()),
            clock,
            config,
            alarm_bell: Waker::from(Arc::new(AlarmBell(Weak::clone(core)))),
            me: Weak::clone(core),
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

    pub(crate) fn settle(&self, mut state: StateGuard<'_, State<K>>) {
        let debts = state.settle();
        drop(state);
        self.pay(debts);
    }

    /// Does what a section owes. Runs user code, so no lock may be held.
    ///
    /// The order is by what user code may wait for: threads that sleep are woken first, then the alarm
    /// is set, and only then do wakers, metrics and the drops of keys run.
    fn pay(&self, mut debts: Debts<K>) {
        debts.calls.ring_ours();
        if let Some(first) = debts.arming.take() {
            self.arm(first, &mut debts);
        }
        debts.calls.ring();
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

    /// Sets the alarm, and those that are to follow it because it has rung already. What their sections
    /// owe joins what is owed.
    #[cold]
    fn arm(&self, first: Arming, debts: &mut Debts<K>) {
        let when = |at| self.epoch.instant(at);
        arm(
            &self.clock,
            &self.alarm_bell,
            when,
            first,
            |arming, alarm| {
                let mut state = self.state.lock();
                let spent = state.armed(arming, alarm, &mut debts.calls);
                // The alarm may have rung before it was there.
                let mut more = state.settle();
                drop(state);
                drop_quietly(spent); // The clock's code: the lock is free.
                let next = more.arming.take();
                debts.absorb(more);
                debts.calls.ring_ours();
                next
            },
        );
    }

    fn alarm_rang(&self) {
        let now = self.now();
        let mut state = self.state.lock();
        state.keys.advance(now);
        let spent = state.takers.rung();
        if state.is_arming() {
            // It may have rung in the very call that sets it. The party that does so settles next, and
            // until then no waker runs: one may wait for the alarm that follows.
            drop(state);
        } else {
            self.settle(state);
        }
        drop_quietly(spent); // As above.
    }

    pub(crate) fn now(&self) -> u64 {
        self.epoch.nanos(self.clock.now())
    }

    /// Moves what is due, if anything can be. Every section begins so, once it has compared keys.
    #[expect(
        clippy::inline_always,
        reason = "measured: what is moved out of a call is written and read again at once"
    )]
    #[inline(always)]
    pub(crate) fn tick(&self, state: &mut State<K>) {
        if state.keys.needs_time() {
            self.read_time(state);
        }
    }

    pub(crate) fn read_time(&self, state: &mut State<K>) {
        state.keys.advance(self.now());
    }

    /// Takes the key that has been ready longest, if there is one.
    #[inline]
    pub(crate) fn take(&self) -> Result<(K, Place), Nothing> {
        let mut state = self.state.lock();
        // What is ready comes before whatever has fallen due since: the time does not matter.
        if state.is_settled()
            && let Some(taken) = state.keys.take_quick()
        {
            return Ok(taken);
        }
        self.take_slow(state)
    }

    fn take_slow(&self, mut state: StateGuard<'_, State<K>>) -> Result<(K, Place), Nothing> {
        self.tick(&mut state);
        let taken = state.keys.take();
        let nothing = if state.keys.is_closed() {
            Nothing::Ever
        } else {
            Nothing::Yet
        };
        self.settle(state);
        let taken = taken.ok_or(nothing)?;
        self.note_taken(taken.waited);
        Ok((taken.key, taken.place))
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
        self.section(|state| {
            self.tick(state); // What has fallen due is delivered.
            let was_open = state.is_open();
            state.shut_down();
            was_open
        })
    }

    /// A key was taken.
    #[inline]
    pub(crate) fn note_taken(&self, waited: u64) {
        self.tell(|metrics, name| {
            metrics.queue_duration_seconds(name, Duration::from_nanos(waited));
        });
    }
}

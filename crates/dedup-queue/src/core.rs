//! The core of the queue: its lock, its clock, its settings, and the sections that run under the
//! lock.
//!
//! # Invariants
//! 1. No user code runs under the lock, except `Eq` of keys, the clock's `now`, and `Clone` of keys
//!    in the sections that list them.
//! 2. The deferred effects of a section run on the thread that ran it, before its call returns.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use delay_queue::epoch::Epoch;
use delay_queue::wait::{Driver, Unavailable, Waiters};
use sync_shim::Clock;
#[cfg(anthill_loom)]
pub(crate) use sync_shim::ManualClock as DefaultClock;
#[cfg(not(anthill_loom))]
pub(crate) use sync_shim::MonotonicClock as DefaultClock;
use sync_shim::Process;
use sync_shim::foreign::{discard, drop_quietly, guarded};

use crate::keys::{Keys, MetricChanges, Place, Settings};
use crate::limiter::RateLimiter;
use crate::lock::{StateGuard, StateLock};
use crate::metrics::Metrics;
use crate::records::Slot;
use crate::state::{Effects, State};

#[cfg(not(anthill_loom))]
pub(crate) fn default_clock() -> DefaultClock {
    DefaultClock
}

#[cfg(anthill_loom)]
pub(crate) fn default_clock() -> DefaultClock {
    DefaultClock::new()
}

/// Requirements of keys. Implemented for all types with these bounds.
///
/// Keys should be cheap to clone: each is cloned once when it is added. `Eq` of keys runs under the
/// queue's lock, so it must not call the queue; a panic there changes nothing. `Hash`, `Clone` and
/// `Drop` run outside, except for the clones of [`entries`](crate::KeyQueue::entries).
pub trait Key: Eq + Hash + Clone + Send + 'static {}
impl<K: Eq + Hash + Clone + Send + 'static> Key for K {}

/// Requirements of hashers. Implemented for all types with these bounds.
pub trait Hasher: BuildHasher + Send + Sync + 'static {}
impl<S: BuildHasher + Send + Sync + 'static> Hasher for S {}

/// Called with each key that is given up and its number of failures.
pub(crate) type DeadLetter<K> = Box<dyn Fn(K, u32) + Send + Sync>;

/// Configuration of a queue, apart from the [`Settings`] of its keys.
pub(crate) struct Config<K> {
    pub(crate) name: Box<str>,
    pub(crate) limiter: Box<dyn RateLimiter<K>>,
    pub(crate) max_attempts: Option<NonZeroU32>,
    pub(crate) dead_letter: Option<DeadLetter<K>>,
    pub(crate) metrics: Option<Box<dyn Metrics>>,
}

pub(crate) struct Core<K, S, C> {
    pub(crate) state: StateLock<State<K>>,
    pub(crate) hasher: S,
    pub(crate) clock: C,
    pub(crate) epoch: Epoch,
    pub(crate) config: Config<K>,
    /// The process that created the queue.
    process: Process,
    /// Settles this queue when its alarm fires.
    alarm_waker: Waker,
    /// Reference to itself, for guards that need shared ownership of the queue.
    pub(crate) me: Weak<Self>,
}

/// Does not keep the queue alive: the alarm may be set for a distant time.
struct AlarmWaker<K, S, C>(Weak<Core<K, S, C>>);

impl<K: Key, S: Hasher, C: Clock> Wake for AlarmWaker<K, S, C> {
    fn wake(self: Arc<Self>) {
        if let Some(core) = self.0.upgrade() {
            core.alarm_fired();
        }
    }
}

/// Not generic, so compiled once for all reports.
#[cold]
fn report_to(metrics: &dyn Metrics, name: &str, what: &mut dyn FnMut(&dyn Metrics, &str)) {
    // Metrics may panic; that must not affect the queue.
    if let Err(payload) = guarded(|| what(metrics, name)) {
        discard(payload);
    }
}

impl<K: Key, S: Hasher, C: Clock> Driver for Core<K, S, C> {
    type State = State<K>;
    type Effects = Effects<K>;
    type Clock = C;

    fn clock(&self) -> &C {
        &self.clock
    }

    fn process(&self) -> Process {
        self.process
    }

    fn now(&self) -> u64 {
        // USER CODE: `Clock::now`, under the lock in some sections, before anything is changed: it must be quick and not call back.
        self.epoch.nanos(self.clock.now())
    }

    fn alarm_waker(&self) -> &Waker {
        &self.alarm_waker
    }

    fn alarm_time(&self, due: u64) -> Option<Instant> {
        self.epoch.instant(due)
    }

    #[inline]
    fn locked<R>(
        &self,
        effects: &mut Effects<K>,
        change: impl FnOnce(&mut State<K>, &mut Effects<K>) -> R,
    ) -> R {
        change(&mut self.state.lock(), effects)
    }

    fn advance(&self, state: &mut State<K>) {
        self.tick(state);
    }

    fn learn(state: &mut State<K>, now: u64) {
        state.keys.advance(now);
    }

    fn waiters(state: &mut State<K>) -> &mut Waiters {
        state.keys.mark_unsettled();
        &mut state.waiters
    }

    fn next_due(state: &mut State<K>) -> u64 {
        state.keys.next_due()
    }

    fn settle(state: &mut State<K>, effects: &mut Effects<K>) {
        if !state.is_settled() {
            state.settle(effects);
        }
    }

    fn has_user_code(state: &State<K>) -> bool {
        state.keys.has_user_code()
    }

    fn run_user_code(&self, effects: &mut Effects<K>) {
        // USER CODE: wakers of getters and drains. Threads are woken and alarms are set before; panics end here.
        effects.wakes.wake_all();
        self.report(effects.metric_changes);
        for (key, twin) in effects.garbage.drain(..) {
            // USER CODE: the drops of keys that expired, were removed or are done.
            drop_quietly(key);
            drop_quietly(twin);
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
            process: Process::current(),
            alarm_waker: Waker::from(Arc::new(AlarmWaker(Weak::clone(core)))),
            me: Weak::clone(core),
        })
    }

    /// Runs a section under the lock, settles if necessary, then runs the section's deferred
    /// effects.
    #[inline]
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State<K>) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        if !state.is_settled() {
            self.settle(state);
        }
        result
    }

    /// Ends a section whose changes concern other parties.
    pub(crate) fn settle(&self, mut state: StateGuard<'_, State<K>>) {
        let mut effects = Effects::default();
        state.settle(&mut effects);
        drop(state);
        self.run(&mut effects);
    }

    fn report(&self, changes: MetricChanges) {
        if changes.adds > 0 {
            // USER CODE: `Metrics`, here and in the calls below: only this caller waits for it; panics end in `with_metrics`.
            self.with_metrics(|metrics, name| metrics.adds_total(name, changes.adds));
        }
        if changes.depth != 0 {
            self.with_metrics(|metrics, name| metrics.depth(name, changes.depth));
        }
    }

    #[inline]
    pub(crate) fn with_metrics(&self, mut what: impl FnMut(&dyn Metrics, &str)) {
        if let Some(metrics) = &self.config.metrics {
            report_to(&**metrics, &self.config.name, &mut what);
        }
    }

    /// Processes due keys, if there can be any. Every section begins with this, after it has
    /// compared keys.
    #[expect(
        clippy::inline_always,
        reason = "measured: the returned value would be written to memory and read at once"
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
    pub(crate) fn take(&self) -> Result<(K, Place), Unavailable> {
        let mut state = self.state.lock();
        // Ready keys come before keys that have fallen due since the last reading: the time does
        // not matter.
        if state.is_settled()
            && let Some(taken) = state.keys.take_fast()
        {
            return Ok(taken);
        }
        self.take_slow(state)
    }

    fn take_slow(&self, mut state: StateGuard<'_, State<K>>) -> Result<(K, Place), Unavailable> {
        self.tick(&mut state);
        let taken = state.keys.take();
        let nothing = if state.keys.is_closed() {
            Unavailable::Closed
        } else {
            Unavailable::Empty
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
        self.update(|state| {
            let found = state.keys.find(hash, is);
            match found {
                Some(slot) if state.keys.may_expire(slot) => self.read_time(state),
                _ => self.tick(state),
            }
            change(&mut state.keys, found)
        })
    }

    /// Rejects adds from now on, and ends drains.
    pub(crate) fn shut_down(&self) -> bool {
        self.update(|state| {
            self.tick(state); // Keys that have fallen due are delivered.
            let was_open = state.is_open();
            state.shut_down();
            was_open
        })
    }

    #[inline]
    pub(crate) fn note_taken(&self, waited: u64) {
        self.with_metrics(|metrics, name| {
            // USER CODE: `Metrics`, by the holder of the key.
            metrics.queue_duration_seconds(name, Duration::from_nanos(waited));
        });
    }
}

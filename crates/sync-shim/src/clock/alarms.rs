//! The thread that wakes wakers at points of time: one for each `Alarms`, started by the first
//! alarm and gone some time after the last.
//!
//! Not for: which clock that is, and how its thread is started (`process.rs`; in models, a clock
//! behind the same trait).
//!
//! # What always holds
//! 1. While an alarm is pending, the thread runs: it is awake, or sleeps no longer than until
//!    `sleeps_until`, which is no later than the earliest alarm.
//! 2. Wakers are called and dropped outside the lock; a panicking one does not stop the thread.
//! 3. With nothing pending for [`KEEP_ALIVE`], the thread ends. It is woken for that once: when what it
//!    slept for was taken back and lay farther off.
//! 4. In a process forked while the thread ran there is none, and no alarm can be set: to start
//!    another would mean to trust a lock and a condition that the lost thread may have held. That is
//!    found out without the lock.
//!
//! # Why no alarm is slept over
//! The thread stores `sleeps_until` in the section that ends with its sleep. So the next section
//! finds it asleep, and notifies it if it would sleep too long. That section also lowers
//! `sleeps_until`, so a later one notifies only for a still earlier time: a notified thread looks at
//! all alarms anyway. The end of the thread and a start are sections of the same lock: an alarm is
//! seen by the thread that ends, or starts the next.

use std::collections::BTreeMap;
use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::{Mutex, MutexGuard, foreign};

/// How long the thread outlives its last alarm: its keep-alive.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The time that the alarms are set by, and the thread's place to sleep.
pub trait Time {
    /// The present.
    fn now(&self) -> Instant;
    /// Gives the lock up until `notify` or `when`. May return early for no reason.
    fn wait_until(&self, state: &mut MutexGuard<'_, State>, when: Instant);
    /// Ends the wait that is under way, if one is.
    fn notify(&self);
}

/// Alarms, and the thread that serves them.
#[derive(Debug)]
pub struct Alarms<T> {
    state: Mutex<State>,
    /// While the thread runs, one more than the fork count of the process that it was started in;
    /// else 0. Written under the lock. Relaxed: under the lock that orders it, and a forked copy
    /// reads what was written before the fork.
    running: AtomicUsize,
    time: T,
}

/// What the lock protects.
#[derive(Debug)]
pub struct State {
    /// By time, then by order of setting.
    pending: BTreeMap<Key, Waker>,
    next: u64,
    /// Until when the thread sleeps; `None` while it is awake.
    sleeps_until: Option<Instant>,
    /// When the last alarm was rung or taken back.
    idle_since: Option<Instant>,
}

/// A pending alarm.
pub type Key = (Instant, u64);

impl State {
    const fn new() -> Self {
        Self {
            pending: BTreeMap::new(),
            next: 0,
            sleeps_until: None,
            idle_since: None,
        }
    }

    /// The thread has to look at all alarms by then: whether it must be notified.
    fn wake_by(&mut self, when: Instant) -> bool {
        let sleeps_over = self.sleeps_until.is_some_and(|until| when < until);
        if sleeps_over {
            self.sleeps_until = Some(when); // A time that is not earlier needs no second notify.
        }
        sleeps_over
    }
}

impl<T: Time> Alarms<T> {
    /// No alarm, no thread.
    #[cfg(not(anthill_loom))]
    pub const fn new(time: T) -> Self {
        Self {
            state: Mutex::new(State::new()),
            running: AtomicUsize::new(0),
            time,
        }
    }

    /// No alarm, no thread.
    #[cfg(anthill_loom)]
    pub fn new(time: T) -> Self {
        Self {
            state: Mutex::new(State::new()),
            running: AtomicUsize::new(0),
            time,
        }
    }

    /// Whether the thread ran in a process of which this one is a copy.
    fn is_lost(&self, forks: usize) -> bool {
        let running = self.running.load(Relaxed);
        running != 0 && running != forks + 1
    }

    /// Enters an alarm; `start` starts the thread if there is none, by having it call
    /// [`serve`](Self::serve). `forks` is the fork count of this process.
    ///
    /// # Errors
    /// What `start` says, and that the thread did not survive a fork.
    pub fn set(
        &self,
        forks: usize,
        when: Instant,
        waker: Waker,
        start: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Key> {
        if self.is_lost(forks) {
            return Err(io::Error::other("the alarm thread did not survive a fork"));
        }
        let mut state = self.state.lock();
        let key = (when, state.next);
        state.next += 1;
        state.pending.insert(key, waker);
        // The thread runs: it looks at this alarm before it sleeps, or is notified if it sleeps for
        // longer.
        if self.running.load(Relaxed) != 0 {
            let notify = state.wake_by(when);
            drop(state);
            if notify {
                self.time.notify();
            }
            return Ok(key);
        }
        // The start is under the lock, so that there is never a second thread; it runs no user code.
        match start() {
            Ok(()) => {
                self.running.store(forks + 1, Relaxed);
                Ok(key)
            }
            Err(refused) => {
                let waker = state.pending.remove(&key);
                drop(state);
                // USER CODE: the drop of a waker that no thread can serve.
                drop(waker);
                Err(refused)
            }
        }
    }

    /// Takes an alarm back, if it has not been rung.
    pub fn take_back(&self, forks: usize, key: Key) {
        if self.is_lost(forks) {
            return; // The thread that would call the waker is gone.
        }
        let mut notify = false;
        let mut state = self.state.lock();
        let waker = state.pending.remove(&key);
        if waker.is_some() && state.pending.is_empty() {
            let now = self.time.now();
            state.idle_since = Some(now);
            // It may sleep for what was taken back: then its keep-alive begins now. While it sleeps
            // that long, alarms that come and go need no notify, so this is rare.
            notify = state.wake_by(now + KEEP_ALIVE);
        }
        drop(state);
        if notify {
            self.time.notify();
        }
        // USER CODE: the drop of a waker whose alarm is taken back. A panic is the caller's.
        drop(waker);
    }

    /// The thread. Returns when nothing has been pending for [`KEEP_ALIVE`].
    pub fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            state.sleeps_until = None; // Awake: it looks at all alarms, so none needs to notify it.
            let now = self.time.now();
            let until = match state.pending.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let waker = first.remove();
                    state.idle_since = Some(now);
                    // Awake (`sleeps_until` is `None`), so what is set meanwhile is seen below.
                    drop(state);
                    // USER CODE: a waker, on the alarm thread: while it blocks, later alarms of the process wait.
                    foreign::wake(waker);
                    state = self.state.lock();
                    continue;
                }
                Some(first) => first.key().0,
                None => {
                    let end = *state.idle_since.get_or_insert(now) + KEEP_ALIVE;
                    if end <= now {
                        // In the section that found nothing pending: the next alarm starts a thread.
                        self.running.store(0, Relaxed);
                        return;
                    }
                    end
                }
            };
            // Published in the section that begins the sleep: the next one knows until when.
            state.sleeps_until = Some(until);
            self.time.wait_until(&mut state, until);
        }
    }

    /// For a modelled clock, which moves its time under the lock.
    #[cfg(anthill_loom)]
    pub fn with_lock<R>(&self, call: impl FnOnce(&T) -> R) -> R {
        let _state = self.state.lock();
        call(&self.time)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    /// Its thread never looks.
    struct Still(Instant);

    impl Time for Still {
        fn now(&self) -> Instant {
            self.0
        }

        fn wait_until(&self, _: &mut MutexGuard<'_, State>, _: Instant) {}

        fn notify(&self) {}
    }

    #[test]
    fn alarms_that_are_taken_back_leave_nothing() {
        let start = Instant::now();
        let alarms = Alarms::new(Still(start));
        let set = |n: u64| {
            let when = start + Duration::from_secs(n % 7);
            let waker = Waker::noop().clone();
            alarms
                .set(0, when, waker, || Ok(()))
                .expect("there is a thread")
        };
        for _ in 0..10 {
            let keys: Vec<_> = (0..100).map(set).collect();
            assert_eq!(alarms.state.lock().pending.len(), 100);
            for key in keys {
                alarms.take_back(0, key);
            }
            assert!(alarms.state.lock().pending.is_empty());
        }
    }
}

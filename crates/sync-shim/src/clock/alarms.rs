//! The thread that calls wakers at given times: one per `Alarms`, started by the first alarm and
//! ended some time after the last.
//!
//! Not for: choosing the clock, how the thread is started, or forks (`process.rs`, where each process has
//! alarms of its own; in models, a clock behind the same trait).
//!
//! # Invariants
//! 1. While an alarm is pending, the thread runs: it is awake, or sleeps at most until
//!    `sleeps_until`, which is no later than the earliest alarm.
//! 2. Wakers are called and dropped outside the lock. A panicking waker does not stop the thread.
//! 3. When no alarm has been pending for [`KEEP_ALIVE`], the thread ends. One notification starts
//!    that interval: when the alarm that the thread slept for is cancelled and lay farther off.
//! 4. A refused thread leaves no trace: the next alarm tries to start one again.
//!
//! # Why the thread never oversleeps an alarm
//! The thread stores `sleeps_until` in the section that ends with its sleep. So the next section
//! sees that it is asleep, and notifies it if it would sleep too long. That section also lowers
//! `sleeps_until`, so a later section notifies only for a still earlier time: a notified thread
//! checks all alarms anyway. The end of the thread and its start are sections of the same lock:
//! either the ending thread sees an alarm, or the alarm starts the next thread.

use std::collections::BTreeMap;
use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::{Mutex, MutexGuard, foreign};

/// Time that the thread stays after its last alarm.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The clock that alarms are set by, and the condition that the thread sleeps on.
pub trait Time {
    /// Returns the current time.
    fn now(&self) -> Instant;
    /// Releases the lock until `notify` or `when`. May return early without a reason.
    fn wait_until(&self, state: &mut MutexGuard<'_, State>, when: Instant);
    /// Ends the current wait, if there is one.
    fn notify(&self);
}

/// Alarms, and the thread that serves them.
#[derive(Debug)]
pub struct Alarms<T> {
    state: Mutex<State>,
    time: T,
}

/// The state that the lock protects.
#[derive(Debug)]
pub struct State {
    /// Whether the thread runs, or is being started.
    is_served: bool,
    /// By time, then by order of creation.
    pending: BTreeMap<Key, Waker>,
    next: u64,
    /// End of the thread's sleep; `None` while it is awake.
    sleeps_until: Option<Instant>,
    /// Time at which the last alarm was fired or cancelled.
    idle_since: Option<Instant>,
}

/// A pending alarm.
pub type Key = (Instant, u64);

impl State {
    const fn new() -> Self {
        Self {
            is_served: false,
            pending: BTreeMap::new(),
            next: 0,
            sleeps_until: None,
            idle_since: None,
        }
    }

    /// Makes the thread check all alarms by `when`. Returns whether it must be notified.
    fn wake_by(&mut self, when: Instant) -> bool {
        let sleeps_over = self.sleeps_until.is_some_and(|until| when < until);
        if sleeps_over {
            self.sleeps_until = Some(when); // A time that is not earlier needs no second notification.
        }
        sleeps_over
    }
}

impl<T: Time> Alarms<T> {
    /// Creates an instance without alarms or thread.
    #[cfg(not(anthill_loom))]
    pub const fn new(time: T) -> Self {
        Self {
            state: Mutex::new(State::new()),
            time,
        }
    }

    /// Creates an instance without alarms or thread.
    #[cfg(anthill_loom)]
    pub fn new(time: T) -> Self {
        Self {
            state: Mutex::new(State::new()),
            time,
        }
    }

    /// Sets an alarm. If no thread runs, `start` must start one that calls [`serve`](Self::serve).
    ///
    /// # Errors
    /// The error of `start`.
    pub fn set(
        &self,
        when: Instant,
        waker: Waker,
        start: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Key> {
        let mut state = self.state.lock();
        let key = (when, state.next);
        state.next += 1;
        state.pending.insert(key, waker);
        // The thread runs: it sees this alarm before it sleeps, or is notified if it would
        // oversleep it.
        if state.is_served {
            let notify = state.wake_by(when);
            drop(state);
            if notify {
                self.time.notify();
            }
            return Ok(key);
        }
        // Started under the lock, so that there is never a second thread; `start` runs no user
        // code.
        match start() {
            Ok(()) => {
                state.is_served = true;
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

    /// Cancels an alarm that has not been fired.
    pub fn take_back(&self, key: Key) {
        let mut notify = false;
        let mut state = self.state.lock();
        let waker = state.pending.remove(&key);
        if waker.is_some() && state.pending.is_empty() {
            let now = self.time.now();
            state.idle_since = Some(now);
            // The thread may be sleeping for the cancelled alarm: its keep-alive begins now. While
            // it sleeps that long, alarms that come and go need no notification, so this is rare.
            notify = state.wake_by(now + KEEP_ALIVE);
        }
        drop(state);
        if notify {
            self.time.notify();
        }
        // USER CODE: the drop of a waker whose alarm is taken back. A panic is the caller's.
        drop(waker);
    }

    /// Body of the thread. Returns when no alarm has been pending for [`KEEP_ALIVE`].
    pub fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            state.sleeps_until = None; // Awake: it checks all alarms, so no section has to notify it.
            let now = self.time.now();
            let until = match state.pending.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let waker = first.remove();
                    state.idle_since = Some(now);
                    // `sleeps_until` is `None`, so an alarm that is set in the meantime is seen
                    // below.
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
                        // In the section that found no pending alarm: the next alarm starts a
                        // thread.
                        state.is_served = false;
                        return;
                    }
                    end
                }
            };
            // Stored in the section that begins the sleep: the next section sees when it ends.
            state.sleeps_until = Some(until);
            self.time.wait_until(&mut state, until);
        }
    }

    /// For a modelled clock, which advances under the lock.
    #[cfg(anthill_loom)]
    pub fn with_lock<R>(&self, call: impl FnOnce(&T) -> R) -> R {
        let _state = self.state.lock();
        call(&self.time)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    /// A clock without a thread.
    struct Still(Instant);

    impl Time for Still {
        fn now(&self) -> Instant {
            self.0
        }

        fn wait_until(&self, _: &mut MutexGuard<'_, State>, _: Instant) {}

        fn notify(&self) {}
    }

    #[test]
    fn a_refused_thread_leaves_no_alarm_and_the_next_alarm_starts_one() {
        let alarms = Alarms::new(Still(Instant::now()));
        let mut starts = 0;
        let mut set = |answer: io::Result<()>| {
            let start = || {
                starts += 1;
                answer
            };
            let set = alarms.set(Instant::now(), Waker::noop().clone(), start);
            set.map(|_| ()).map_err(|refused| refused.kind())
        };
        for _ in 0..2 {
            let refused = set(Err(io::ErrorKind::WouldBlock.into()));
            assert_eq!(refused, Err(io::ErrorKind::WouldBlock));
            assert!(alarms.state.lock().pending.is_empty());
        }
        assert_eq!((set(Ok(())), set(Ok(()))), (Ok(()), Ok(())));
        assert_eq!(starts, 3, "the fourth alarm has a thread");
    }

    #[test]
    fn cancelled_alarms_leave_nothing() {
        let start = Instant::now();
        let alarms = Alarms::new(Still(start));
        let set = |n: u64| {
            let when = start + Duration::from_secs(n % 7);
            let waker = Waker::noop().clone();
            alarms
                .set(when, waker, || Ok(()))
                .expect("there is a thread")
        };
        for _ in 0..10 {
            let keys: Vec<_> = (0..100).map(set).collect();
            assert_eq!(alarms.state.lock().pending.len(), 100);
            for key in keys {
                alarms.take_back(key);
            }
            assert!(alarms.state.lock().pending.is_empty());
        }
    }
}

//! A clock that stands still until a test advances it.
//!
//! The clock knows its waiters. A test can let a thread go to sleep, observe that it sleeps
//! ([`ManualClock::wait_for_sleepers`]), and only then advance the time: no test has to sleep to
//! order events. Models use it for deadlines: a clock thread calls `advance`, which may happen at
//! any point of the other threads' steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::parker::Woken;
use crate::{Alarm, Clock, Condvar, Mutex, Parker, foreign};

/// A clock for tests and models. Clones share the same time.
#[derive(Clone)]
pub struct ManualClock(Arc<Shared>);

struct Shared {
    /// Value of `now` at the start. Read from the machine only because there is no other way to
    /// obtain an `Instant`.
    epoch: Instant,
    time: Mutex<Time>,
    /// Notified when a thread or an alarm begins to wait.
    arrived: Condvar,
}

struct Time {
    since_epoch: Duration,
    /// By due time, then by order of arrival.
    sleepers: BTreeMap<(Instant, u64), Sleeper>,
    next: u64,
}

enum Sleeper {
    Thread(Parker),
    Alarm(Waker),
}

impl ManualClock {
    /// Creates a clock at an arbitrary point in time.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            epoch: Instant::now(),
            time: Mutex::new(Time {
                since_epoch: Duration::ZERO,
                sleepers: BTreeMap::new(),
                next: 0,
            }),
            arrived: Condvar::new(),
        }))
    }

    /// Advances the time, and wakes all waiters that are due, earliest first.
    ///
    /// # Panics
    /// If the new time is past the range of `Instant`.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut time = self.0.time.lock();
            // The time advances and the due sleepers are removed in one section: a later sleeper
            // sees the new time and does not sleep.
            time.since_epoch = time.since_epoch.saturating_add(by);
            let now = self.0.at(&time);
            let mut due = Vec::new();
            while let Some(first) = time.sleepers.first_entry() {
                if first.key().0 > now {
                    break;
                }
                due.push(first.remove());
            }
            due
        };
        for sleeper in due {
            match sleeper {
                // The poke may arrive late, in the owner's next sleep, which checks the time again.
                Sleeper::Thread(parker) => parker.poke(),
                // User code: the lock has been released, and a panic must not cost the other
                // sleepers their wake-up.
                Sleeper::Alarm(waker) => foreign::wake(waker),
            }
        }
    }

    /// Advances the time to the earliest time that a thread or an alarm waits for, and returns when as many of them wait
    /// for a future time as before. Returns how far the time has advanced.
    ///
    /// For code that waits, works and waits again, such as retries and periodic tasks: each call is one round. Blocks
    /// first until there is a waiter. Blocks for ever if one of the waiters does not wait again: for the last round call
    /// [`advance`](Self::advance).
    ///
    /// # Panics
    /// If the earliest time is past the range of `Instant`.
    pub fn advance_to_next(&self) -> Duration {
        let (by, waiting) = {
            let mut time = self.0.time.lock();
            loop {
                if let Some(&(when, _)) = time.sleepers.keys().next() {
                    let by = when.saturating_duration_since(self.0.at(&time));
                    break (by, time.sleepers.len());
                }
                self.0.arrived.wait(&mut time);
            }
        };
        self.advance(by);
        self.wait_for_sleepers(waiting);
        by
    }

    /// Returns the number of threads and alarms that wait for a future time.
    pub fn sleepers(&self) -> usize {
        self.0.time.lock().sleepers.len()
    }

    /// Returns the earliest time that a thread or an alarm waits for.
    pub fn next_due(&self) -> Option<Instant> {
        let time = self.0.time.lock();
        time.sleepers.keys().next().map(|&(when, _)| when)
    }

    /// Blocks until at least `count` threads and alarms wait for a future time.
    pub fn wait_for_sleepers(&self, count: usize) {
        let mut time = self.0.time.lock();
        while time.sleepers.len() < count {
            self.0.arrived.wait(&mut time);
        }
    }
}

impl Shared {
    fn at(&self, time: &Time) -> Instant {
        self.epoch
            .checked_add(time.since_epoch)
            .expect("a manual clock stays within the range of `Instant`")
    }

    /// Adds a sleeper, unless its time has come.
    fn enter(&self, when: Instant, sleeper: Sleeper) -> Result<(Instant, u64), Sleeper> {
        let mut time = self.time.lock();
        // Reads the time in the section that adds the sleeper: no `advance` can come in between.
        if self.at(&time) >= when {
            return Err(sleeper);
        }
        let key = (when, time.next);
        time.next += 1;
        time.sleepers.insert(key, sleeper);
        drop(time);
        self.arrived.notify_all();
        Ok(key)
    }

    fn leave(&self, key: (Instant, u64)) {
        let gone = self.time.lock().sleepers.remove(&key);
        // USER CODE: the drop of the waker of an alarm that is taken back.
        drop(gone);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.0.at(&self.0.time.lock())
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        let Ok(key) = self.0.enter(when, Sleeper::Thread(parker.clone())) else {
            return parker.take_token();
        };
        loop {
            // A poke may be a late one, meant for an earlier wait: then the time has not come.
            let woken = parker.sleep(None);
            if woken == Woken::Token {
                self.0.leave(key);
                return true;
            }
            if self.now() >= when {
                return parker.take_token();
            }
        }
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        struct Pending(Arc<Shared>, (Instant, u64));
        impl Drop for Pending {
            fn drop(&mut self) {
                self.0.leave(self.1);
            }
        }
        match self.0.enter(when, Sleeper::Alarm(waker)) {
            Ok(key) => Ok(Alarm::new(Pending(Arc::clone(&self.0), key))),
            Err(Sleeper::Alarm(waker)) => {
                // USER CODE: a waker, on the caller's thread: its panic is the caller's.
                waker.wake();
                Ok(Alarm::new(()))
            }
            Err(Sleeper::Thread(_)) => unreachable!("an alarm was entered"),
        }
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.0.time.lock();
        f.debug_struct("ManualClock")
            .field("since_epoch", &time.since_epoch)
            .field("sleepers", &time.sleepers.len())
            .finish()
    }
}

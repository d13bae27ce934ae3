//! A clock that stands still until it is moved by hand.
//!
//! It knows its waiters, so a test can let a thread go to sleep, see that it has
//! ([`ManualClock::wait_for_sleepers`]), and only then move time: no test has to sleep to order
//! events. Under loom it is how deadlines are modelled: a clock thread calls `advance`, which may
//! then happen at any point of the other threads' steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::parker::Woken;
use crate::{Alarm, Clock, Condvar, Mutex, Parker, foreign};

/// Time for tests and models. Clones show the same time.
#[derive(Clone)]
pub struct ManualClock(Arc<Shared>);

struct Shared {
    /// What `now` is at the start. Read from the machine only because an `Instant` can be had no
    /// other way.
    epoch: Instant,
    time: Mutex<Time>,
    /// Notified when a thread or an alarm begins to wait.
    arrived: Condvar,
}

struct Time {
    since_epoch: Duration,
    /// By due time, then by arrival.
    sleepers: BTreeMap<(Instant, u64), Sleeper>,
    next: u64,
}

enum Sleeper {
    Thread(Parker),
    Alarm(Waker),
}

impl ManualClock {
    /// A clock at an arbitrary point of time.
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

    /// Moves time forward, and wakes all waiters that are due, earliest first.
    ///
    /// # Panics
    /// If the new time is past what an `Instant` can express.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut time = self.0.time.lock();
            // Time moves and the due sleepers leave in one section: a sleeper that comes later sees
            // the new time and does not sleep.
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
                // May come late and meet the owner's next sleep, which looks at the time again.
                Sleeper::Thread(parker) => parker.poke(),
                // User code: the lock is free, and a panic must not cost the others their wake-up.
                Sleeper::Alarm(waker) => foreign::wake(waker),
            }
        }
    }

    /// How many threads and alarms wait for a time that has not come.
    pub fn sleepers(&self) -> usize {
        self.0.time.lock().sleepers.len()
    }

    /// The earliest time that is waited for.
    pub fn next_due(&self) -> Option<Instant> {
        let time = self.0.time.lock();
        time.sleepers.keys().next().map(|&(when, _)| when)
    }

    /// Blocks until at least `count` threads and alarms wait for a time that has not come.
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
            .expect("a manual clock stays within what an `Instant` can express")
    }

    /// Enters a sleeper, unless its time has come.
    fn enter(&self, when: Instant, sleeper: Sleeper) -> Result<(Instant, u64), Sleeper> {
        let mut time = self.time.lock();
        // Looks at the time in the section that enters: no `advance` can fall in between.
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
            // A poke may be a late one, of an earlier wait: then time has not come.
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

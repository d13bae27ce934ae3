//! Alarms of the process: the system's time, and one thread for all alarms.
//!
//! A forked child has alarms of its own, because the parent's thread is missing there and may have held
//! their lock.

use std::fmt;
use std::io;
use std::task::Waker;
use std::time::Instant;

use super::alarms::{Alarms, Key, State, Time};
use crate::thread::{ThreadOptions, set_precise_timers, spawn_service};
use crate::{Condvar, MutexGuard, PerProcess, Process};

/// The system's time, and the condition that the thread sleeps on.
struct Machine(Condvar);

static ALARMS: PerProcess<Alarms<Machine>> = PerProcess::new();

impl Time for Machine {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wait_until(&self, state: &mut MutexGuard<'_, State>, when: Instant) {
        self.0.wait_until(state, when);
    }

    fn notify(&self) {
        self.0.notify_one(); // Only the alarm thread waits on it.
    }
}

/// Cancels its alarm when dropped.
pub(super) struct Pending {
    alarms: &'static Alarms<Machine>,
    key: Key,
    process: Process,
}

impl Drop for Pending {
    fn drop(&mut self) {
        // In a forked child the alarm is pending in the parent only, whose lock may be held for ever.
        if self.process.is_current() {
            self.alarms.take_back(self.key);
        }
    }
}

/// Error of an alarm: the operating system refused to start the thread that would serve it.
#[derive(Debug)]
struct Refused(io::Error);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the alarm thread could not be started: {}", self.0)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Returns whether an alarm could not be set because its thread was refused.
pub(super) fn is_refused(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Refused>)
}

pub(super) fn set(when: Instant, waker: Waker) -> io::Result<Pending> {
    let process = Process::current();
    let alarms = ALARMS.get_or_init(|_| Alarms::new(Machine(Condvar::new())));
    let start = || {
        let options = ThreadOptions {
            name: Some("anthill-alarms"),
            ..ThreadOptions::default()
        };
        let body = || {
            set_precise_timers();
            alarms.serve();
        };
        spawn_service(options, body).map(|_detached| ())
    };
    let key = alarms.set(when, waker, start);
    match key {
        Ok(key) => Ok(Pending {
            alarms,
            key,
            process,
        }),
        Err(refused) => Err(io::Error::new(refused.kind(), Refused(refused))),
    }
}

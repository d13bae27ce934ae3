//! Alarms of the process: the system's time, and one thread for all alarms.

use std::io;
use std::task::Waker;
use std::time::Instant;

use super::alarms::{Alarms, Key, State, Time};
use crate::thread::{ThreadOptions, set_precise_timers, spawn_thread};
use crate::{Condvar, MutexGuard, fork_count};

/// The system's time, and the condition that the thread sleeps on.
struct Machine(Condvar);

static ALARMS: Alarms<Machine> = Alarms::new(Machine(Condvar::new()));

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
pub(super) struct Pending(Key);

impl Drop for Pending {
    fn drop(&mut self) {
        ALARMS.take_back(fork_count(), self.0);
    }
}

pub(super) fn set(when: Instant, waker: Waker) -> io::Result<Pending> {
    let start = || {
        let options = ThreadOptions {
            name: Some("anthill-alarms"),
            ..ThreadOptions::default()
        };
        let body = || {
            set_precise_timers();
            ALARMS.serve();
        };
        spawn_thread(options, body).map(|_detached| ())
    };
    ALARMS.set(fork_count(), when, waker, start).map(Pending)
}

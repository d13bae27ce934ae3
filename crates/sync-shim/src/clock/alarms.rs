//! The process's alarm thread: wakes wakers at points of monotonic time.
//!
//! # What always holds
//! 1. While an alarm is pending, the thread runs, and sleeps no longer than until the earliest.
//! 2. Wakers are called and dropped outside the lock; a panicking one does not stop the thread.
//! 3. With nothing pending for [`LINGER`], the thread ends.
//! 4. In a process forked while the thread ran there is none, and no alarm can be set: to start
//!    another would mean to trust a lock and a condition that the lost thread may have held. That is
//!    found out without the lock.

use std::collections::BTreeMap;
use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::foreign::{discard, guarded};
use crate::thread::{ThreadOptions, set_precise_timers, spawn_thread};
use crate::{Condvar, Mutex, fork_count};

/// How long the thread outlives its last alarm.
const LINGER: Duration = Duration::from_secs(10);

struct Alarms {
    /// By time, then by order of setting.
    pending: BTreeMap<(Instant, u64), Waker>,
    next: u64,
}

static ALARMS: Mutex<Alarms> = Mutex::new(Alarms {
    pending: BTreeMap::new(),
    next: 0,
});
/// While the thread runs, one more than the fork count of the process that it was started in; else 0.
/// Written under the lock. Relaxed: a forked copy reads what was written before the fork.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// Notified when the earliest alarm got earlier.
static EARLIER: Condvar = Condvar::new();

/// Takes its alarm back when dropped.
pub(super) struct Pending((Instant, u64));

impl Drop for Pending {
    fn drop(&mut self) {
        if is_lost(fork_count()) {
            return; // Nobody will ever call the waker.
        }
        let waker = ALARMS.lock().pending.remove(&self.0);
        drop(waker); // Foreign code: the lock is free again.
    }
}

/// Whether the thread ran in a process of which this one is a copy.
fn is_lost(forks: usize) -> bool {
    let running = RUNNING.load(Relaxed);
    running != 0 && running != forks + 1
}

pub(super) fn set(when: Instant, waker: Waker) -> io::Result<Pending> {
    let forks = fork_count();
    if is_lost(forks) {
        return Err(io::Error::other("the alarm thread did not survive a fork"));
    }
    let mut alarms = ALARMS.lock();
    let key = (when, alarms.next);
    alarms.next += 1;
    alarms.pending.insert(key, waker);
    if RUNNING.load(Relaxed) != 0 {
        let earliest = alarms.pending.keys().next() == Some(&key);
        drop(alarms);
        if earliest {
            EARLIER.notify_one();
        }
        return Ok(Pending(key));
    }
    // The start is under the lock, so that there is never a second thread; it runs no foreign
    // code.
    let options = ThreadOptions {
        name: Some("anthill-alarms"),
        ..ThreadOptions::default()
    };
    match spawn_thread(options, serve) {
        Ok(_detached) => {
            RUNNING.store(forks + 1, Relaxed);
            Ok(Pending(key))
        }
        Err(refused) => {
            let waker = alarms.pending.remove(&key);
            drop(alarms);
            drop(waker);
            Err(refused)
        }
    }
}

fn serve() {
    set_precise_timers();
    let mut alarms = ALARMS.lock();
    loop {
        let now = Instant::now();
        match alarms.pending.first_entry() {
            Some(first) if first.key().0 <= now => {
                let waker = first.remove();
                drop(alarms);
                // A waker is foreign code; what it panics with is not ours to carry.
                if let Err(payload) = guarded(|| waker.wake()) {
                    discard(payload);
                }
                alarms = ALARMS.lock();
            }
            Some(first) => {
                let when = first.key().0;
                EARLIER.wait_until(&mut alarms, when);
            }
            None => {
                let timed_out = EARLIER.wait_for(&mut alarms, LINGER).timed_out();
                if timed_out && alarms.pending.is_empty() {
                    RUNNING.store(0, Relaxed);
                    return;
                }
            }
        }
    }
}

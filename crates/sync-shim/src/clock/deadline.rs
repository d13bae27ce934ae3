//! The time limit of a future.
//!
//! # Invariants
//! 1. The time is up if the clock says so, and in no other case: neither a refused alarm nor one that fires
//!    early ends it.
//! 2. While it is pending, the waker of the last poll will be called: by the alarm, or by the poll itself if no
//!    alarm could be set.

use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::{Alarm, Clock, wake_at};
#[cfg(not(anthill_loom))]
use crate::Parker;
use crate::Process;
use crate::foreign::drop_quietly;

/// Longest time that a [`pace`] blocks its thread.
pub const LONGEST_PACE: Duration = Duration::from_millis(5);

/// Takes the place of an alarm that could not be set: blocks the calling thread until `when`, but for at
/// most [`LONGEST_PACE`].
///
/// A poll that calls this function, calls its own waker and is then pending keeps its time limit without an
/// alarm: it ends no earlier than `when`, and its thread sleeps in between. Other tasks of the thread's
/// executor are late by that time.
pub fn pace(clock: &dyn Clock, when: Instant) {
    #[cfg(not(anthill_loom))]
    {
        let left = when.saturating_duration_since(clock.now());
        let parker = Parker::new(); // Never unparked: it wakes at that time.
        parker.park_until_real(Instant::now() + left.min(LONGEST_PACE));
    }
    // No time passes in a model.
    #[cfg(anthill_loom)]
    let _ = (clock, when);
}

/// The time limit of a future, by a clock.
#[derive(Debug)]
pub struct Deadline {
    at: Option<Instant>,
    alarm: Option<Set>,
}

#[derive(Debug)]
struct Set {
    #[expect(dead_code, reason = "held for its drop")]
    alarm: Alarm,
    waker: Waker,
    /// A forked child does not have the alarm.
    process: Process,
}

/// State of a [`Deadline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The time is up.
    Up,
    /// There is no time limit, or an alarm is set for it.
    Left,
    /// No alarm could be set for this time. The caller must look again in time: see [`pace`].
    LeftWithoutAlarm(Instant),
}

impl Deadline {
    /// Creates a time limit, or none.
    pub const fn new(at: Option<Instant>) -> Self {
        Self { at, alarm: None }
    }

    /// Is ready when the time is up. If it is pending, `waker` is called by then. If no alarm can be set, the
    /// call blocks for a moment instead: see [`pace`].
    pub fn poll(&mut self, clock: &dyn Clock, waker: &Waker) -> Poll<()> {
        match self.arm(clock, waker) {
            Time::Up => Poll::Ready(()),
            Time::Left => Poll::Pending,
            Time::LeftWithoutAlarm(at) => {
                pace(clock, at);
                // USER CODE: the poll's own waker. A panic is the poller's.
                waker.wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Sets an alarm that calls `waker` when the time is up, unless it is up.
    pub fn arm(&mut self, clock: &dyn Clock, waker: &Waker) -> Time {
        let Some(at) = self.at else {
            return Time::Left;
        };
        // Before an alarm is set, because one for a past time would call the waker during this poll.
        if clock.now() >= at {
            return Time::Up;
        }
        // An alarm for the same waker is kept, so that polls in a loop do not allocate.
        let is_set = |set: &Set| set.waker.will_wake(waker) && set.process.is_current();
        if self.alarm.as_ref().is_some_and(is_set) {
            return Time::Left;
        }
        // USER CODE: the waker's clone and `Clock::wake_at`, which may fire at once.
        let Ok(alarm) = wake_at(clock, at, waker.clone()) else {
            return Time::LeftWithoutAlarm(at);
        };
        let stale = self.alarm.replace(Set {
            alarm,
            waker: waker.clone(),
            process: Process::current(),
        });
        // USER CODE: the drops of the replaced alarm and waker.
        drop_quietly(stale);
        Time::Left
    }
}

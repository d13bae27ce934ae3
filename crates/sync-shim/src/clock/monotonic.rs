//! The system's monotonic clock.

use std::io;
use std::task::Waker;
use std::time::Instant;

use super::process;
use crate::{Alarm, Clock, Parker};

/// The operating system's monotonic time: it does not jump when the wall clock is set.
///
/// One thread serves the alarms of the whole process. The first alarm starts it, and it ends ten
/// seconds after the last alarm was fired or cancelled. A forked child has alarms and a thread of its
/// own. The thread does not inherit the processors, the priority or the signal mask of the caller that
/// started it: see [`spawn_service`](crate::thread::spawn_service).
///
/// That thread calls the wakers one after another. A waker that blocks (for example one that runs
/// its task in place) delays every later alarm of the process for as long, in all queues that use
/// this clock. A waker should schedule its task elsewhere and return. If it cannot, give that queue
/// a clock of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        parker.park_until_real(when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        process::set(when, waker).map(Alarm::new)
    }
}

/// A [`MonotonicClock`] whose alarms are set by [`wake_at`](crate::wake_at) only. A program with such a clock does not
/// contain the alarm thread's code, unless it calls that function.
#[derive(Clone, Copy, Debug)]
pub struct PlainClock;

impl Clock for PlainClock {
    fn now(&self) -> Instant {
        MonotonicClock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        MonotonicClock.park_until(parker, when)
    }

    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn is_plain(&self) -> bool {
        true
    }
}

//! The machine's monotonic clock.

use std::io;
use std::task::Waker;
use std::time::Instant;

use super::process;
use crate::{Alarm, Clock, Parker};

/// The operating system's monotonic time: it does not jump when the wall clock is set.
///
/// Alarms are served by one thread for the whole process, started when the first is set and gone
/// ten seconds after the last was rung or taken back. A process forked meanwhile has lost that
/// thread: setting an alarm there is refused.
///
/// That thread calls the wakers, one after the other. One that blocks (a waker that runs its task
/// in place, say) delays every later alarm of the process for as long: those of all queues that
/// use this clock. A waker is to schedule its task elsewhere and return; where that cannot be had,
/// give that queue a clock of its own.
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

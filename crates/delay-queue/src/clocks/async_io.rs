//! async-io's timers, which smol and async-std use.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Instant;

use ::async_io::Timer;
use sync_shim::{Alarm, Clock, MonotonicClock, Parker};

/// The system's monotonic time, with alarms by async-io's reactor. For programs that run the
/// reactor anyway, so that they need no second timer thread.
///
/// ```
/// use std::time::Duration;
/// use delay_queue::{AsyncIoClock, DelayQueue};
///
/// let queue = DelayQueue::with_clock(AsyncIoClock);
/// queue.push("tea", Duration::from_millis(2))?;
/// let taken = async_io::block_on(queue.take_async())?;
/// assert_eq!(taken.value, "tea");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncIoClock;

impl Clock for AsyncIoClock {
    fn now(&self) -> Instant {
        MonotonicClock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        MonotonicClock.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        let mut timer = Timer::at(when);
        let polled = Pin::new(&mut timer).poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            waker.wake();
        }
        // The reactor calls the waker only while the timer exists.
        Ok(Alarm::new(timer))
    }
}

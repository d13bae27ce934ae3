//! Tokio's clock.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use sync_shim::{Alarm, Clock, MonotonicClock, Mutex, Parker};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{self, Instant as Moment};

/// How often a thread looks whether paused time has been moved.
const LOOK: Duration = Duration::from_millis(1);

/// An alarm further away is awaited in stretches: tokio's timer reaches two years.
const STRETCH: Duration = Duration::from_secs(24 * 60 * 60);

/// Time as a tokio runtime has it: futures are woken by its own timer, and if time is paused
/// there (as tokio's `test-util` can), it stands still here too.
///
/// Alarms are tasks of the runtime, precise to its timer's millisecond, and they fire only while
/// a thread drives it. If it is shut down, futures that wait for a time get
/// [`TakeError::NoAlarm`](crate::TakeError::NoAlarm).
///
/// Threads that wait do so by real time; they see that time has been paused, and then look every
/// millisecond whether it has been moved.
///
/// ```
/// use std::time::Duration;
/// use delay_queue::{DelayQueue, TokioClock};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let queue = DelayQueue::with_clock(TokioClock::new(runtime.handle().clone()));
/// queue.push("tea", Duration::from_millis(2))?;
/// assert_eq!(runtime.block_on(queue.take_async())?.value, "tea");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokioClock(Handle);

impl TokioClock {
    /// The clock of this runtime.
    ///
    /// # Panics
    /// If the runtime has no timer: its builder was made without `enable_time`.
    pub fn new(runtime: Handle) -> Self {
        let entered = runtime.enter();
        // To find out now rather than in an alarm's task.
        drop(time::sleep(Duration::ZERO));
        drop(entered);
        Self(runtime)
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        // Paused time is a matter of the runtime that one is in.
        let _entered = self.0.enter();
        Moment::now().into_std()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        let mut until = when;
        loop {
            if parker.park_until_real(until) {
                return true;
            }
            if self.now() >= when {
                return false;
            }
            until = MonotonicClock.now() + LOOK; // Time is paused.
        }
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        let once = OnceWaker(Arc::new(Mutex::new(Some(waker))));
        // Made here: a task that is never run is dropped without having begun.
        let wakes_on_drop = WakesOnDrop(once.clone());
        let task = self.0.spawn(async move {
            sleep_until(when.into()).await;
            drop(wakes_on_drop);
        });
        let guard = Guard {
            once,
            task: task.abort_handle(),
        };
        if task.is_finished() && self.now() < when {
            return Err(io::Error::other("the runtime has been shut down"));
        }
        Ok(Alarm::new(guard))
    }
}

async fn sleep_until(when: Moment) {
    loop {
        let now = Moment::now();
        if now >= when {
            return;
        }
        time::sleep_until(when.min(now + STRETCH)).await;
    }
}

/// To be woken at most once. Taken out when the alarm is taken back.
#[derive(Clone)]
struct OnceWaker(Arc<Mutex<Option<Waker>>>);

impl OnceWaker {
    fn take(&self) -> Option<Waker> {
        self.0.lock().take()
    }
}

/// Wakes when it is dropped: at its time, or with the runtime, so that the waiters learn of that.
struct WakesOnDrop(OnceWaker);

impl Drop for WakesOnDrop {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

struct Guard {
    once: OnceWaker,
    task: AbortHandle,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let waker = self.once.take();
        self.task.abort();
        drop(waker); // User code: no lock is held.
    }
}

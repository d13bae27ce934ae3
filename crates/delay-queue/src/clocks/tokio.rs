//! Tokio's clock.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use sync_shim::{Alarm, Clock, MonotonicClock, Mutex, Parker};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{self, Instant as Moment};

/// Interval at which a waiting thread checks whether paused time has been advanced.
const LOOK: Duration = Duration::from_millis(1);

/// Alarms farther away are awaited in steps: tokio's timer reaches only two years.
const STRETCH: Duration = Duration::from_secs(24 * 60 * 60);

/// The time of a tokio runtime: its timer wakes the futures. If time is paused in the runtime (with
/// tokio's `test-util`), this clock stands still too.
///
/// Alarms are tasks of the runtime. They have the resolution of its timer, one millisecond, and
/// fire only while a thread drives the runtime. If it is shut down, waiting futures get
/// [`TakeError::NoAlarm`](crate::TakeError::NoAlarm).
///
/// Waiting threads use real time. While time is paused, they check every millisecond whether it has
/// been advanced.
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
    /// Creates the clock of `runtime`.
    ///
    /// # Panics
    /// If the runtime has no timer: its builder was used without `enable_time`.
    pub fn new(runtime: Handle) -> Self {
        let entered = runtime.enter();
        // Panics here rather than in the task of an alarm.
        drop(time::sleep(Duration::ZERO));
        drop(entered);
        Self(runtime)
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        // Whether time is paused depends on the runtime that the thread has entered.
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
        // Created outside the task: a task that never runs is dropped without having started, and
        // must wake too.
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

/// A waker that is called at most once. Removed when the alarm is cancelled.
#[derive(Clone)]
struct OnceWaker(Arc<Mutex<Option<Waker>>>);

impl OnceWaker {
    fn take(&self) -> Option<Waker> {
        self.0.lock().take()
    }
}

/// Calls the waker when dropped: at the alarm's time, or when the runtime is shut down, so that the
/// waiters notice.
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

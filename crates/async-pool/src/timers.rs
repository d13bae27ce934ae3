//! Timers: one heap per worker, and the futures that wait for a time.
//!
//! On a worker of a pool a timer is an entry in that worker's heap, at some 40 bytes and no system call. Elsewhere it is
//! an alarm of the process's alarm thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use delay_queue::{DelayHeap, EntryId};
use pool_core::Timeout;
use sync_shim::atomic::{AtomicU64, Ordering::SeqCst};
use sync_shim::foreign::{drop_quietly, wake};
use sync_shim::{Deadline, Mutex};

use crate::admission::has_slack;
use crate::worker::{WorkerRef, last_now, with_current};

/// No timer.
pub(crate) const NEVER: u64 = u64::MAX;
/// The clock of timers outside of pools, and the default of pools.
#[cfg(not(anthill_loom))]
pub(crate) fn outside() -> pool_core::MonotonicClock {
    pool_core::MonotonicClock
}

/// In a model no time passes.
#[cfg(anthill_loom)]
pub(crate) fn outside() -> pool_core::ManualClock {
    pool_core::ManualClock::new()
}

/// How many timers a worker fires in a row. More than the new tasks that it takes: what has begun frees room.
const MOST_FIRED: usize = 128;

/// The timers of one worker. Other workers fire those that are overdue.
pub(crate) struct Timers {
    heap: Mutex<DelayHeap<Waker>>,
    /// Time of the first timer, or [`NEVER`]. Written under the lock.
    // Other workers read it without the lock. A stale time costs them a look into the heap, or the timer a delay that is
    // bounded by their next look.
    next: CachePadded<AtomicU64>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self {
            heap: Mutex::new(DelayHeap::new()),
            next: CachePadded::new(AtomicU64::new(NEVER)),
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next.load(SeqCst)
    }

    fn change<T>(&self, change: impl FnOnce(&mut DelayHeap<Waker>) -> T) -> T {
        let mut heap = self.heap.lock();
        let result = change(&mut heap);
        let next = heap.peek_due().unwrap_or(NEVER);
        if next != self.next.load(SeqCst) {
            self.next.store(next, SeqCst);
        }
        result
    }

    pub(crate) fn has_slack(&self) -> bool {
        let heap = self.heap.lock();
        has_slack(heap.capacity(), heap.len())
    }

    /// Frees the memory of a peak.
    pub(crate) fn shrink(&self) {
        self.heap.lock().shrink_to_fit();
    }

    /// Whether the timer is for this waker. `None` if it was fired.
    fn is_for(&self, id: EntryId, waker: &Waker) -> Option<bool> {
        let heap = self.heap.lock();
        heap.get(id).map(|set| set.will_wake(waker))
    }

    /// Wakes the tasks of due timers, a bounded number. Returns whether there were any.
    pub(crate) fn fire(&self, now: u64, due: &mut Vec<Waker>) -> bool {
        if self.next() > now {
            return false;
        }
        self.change(|heap| due.extend(heap.drain_ready(now, MOST_FIRED).map(|entry| entry.value)));
        let any = !due.is_empty();
        // USER CODE: wakers, after the unlock. A panic is caught.
        due.drain(..).for_each(wake);
        any
    }
}

/// Waits for `duration` from this call. Never ends early. In a task, call it inside the future (`async { sleep(..).await }`):
/// made outside, it counts the time for which the task waits for room, and uses the clock of the calling thread.
///
/// On a worker of an [`AsyncPool`](crate::AsyncPool) the timer belongs to that worker and the pool's clock. Elsewhere (a
/// `block_on`, a task of another runtime) it is the monotonic clock's, and one thread of the process serves it.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::time::{Duration, Instant};
///
/// let begin = Instant::now();
/// async_pool::sleep(Duration::from_millis(5)).await;
/// assert!(begin.elapsed() >= Duration::from_millis(5));
/// # });
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(duration.into())
}

/// Waits until the instant `deadline`. See [`sleep`].
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(deadline.into())
}

/// The future of [`sleep`] and [`sleep_until`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Sleep(Timer);

/// Small, because each sleeping task has one.
enum Timer {
    /// Of the clock of this worker's pool. In no heap.
    Unset { worker: Arc<WorkerRef>, due: u64 },
    /// The same, in the heap of this worker.
    Set {
        worker: Arc<WorkerRef>,
        due: u64,
        id: EntryId,
    },
    /// Of the monotonic clock. Without a deadline it never ends. With an alarm once it was polled.
    Outside {
        deadline: Option<Instant>,
        alarm: Option<Box<Deadline>>,
    },
}

impl Sleep {
    fn new(timeout: Timeout) -> Self {
        // USER CODE: `Clock::now`. A panic is the caller's.
        let timer = with_current(|current| {
            let clock = current.map(|worker| &*worker.shared.clock);
            let deadline = timeout.deadline(clock.unwrap_or(&outside()));
            match (current, deadline) {
                (Some(worker), Some(deadline)) => Timer::Unset {
                    worker: Arc::clone(worker),
                    due: worker.shared.since_epoch(deadline),
                },
                _ => Timer::Outside {
                    deadline,
                    alarm: None,
                },
            }
        });
        Self(timer)
    }

    /// Returns the time at which it ends, or `None` if that is never.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.0 {
            Timer::Unset { worker, due } | Timer::Set { worker, due, .. } => {
                worker.shared.instant_of(*due)
            }
            Timer::Outside { deadline, .. } => *deadline,
        }
    }

    fn poll_on_worker(&mut self, context: &Context<'_>, current: &Arc<WorkerRef>) -> Poll<()> {
        let due = match &self.0 {
            Timer::Unset { worker, due } | Timer::Set { worker, due, .. }
                if Arc::ptr_eq(&worker.shared, &current.shared) =>
            {
                *due
            }
            // Made elsewhere, and moved here.
            _ => match self.deadline() {
                Some(deadline) => current.shared.since_epoch(deadline),
                None => return Poll::Pending,
            },
        };
        // By the time of the round: no clock is read. A time that lies back ends no sleep early.
        let mut is_over = due <= last_now();
        if let Timer::Set { worker, id, .. } = &self.0
            && !is_over
            && Arc::ptr_eq(&worker.shared, &current.shared)
        {
            match worker.timers().is_for(*id, context.waker()) {
                Some(true) => return Poll::Pending,
                Some(false) => {}
                // By a worker whose time is later than this one's, which stands still during a poll.
                None => is_over = true,
            }
        }
        self.disarm();
        if is_over {
            return Poll::Ready(());
        }
        // USER CODE: the waker's clone, with no lock held.
        let waker = context.waker().clone();
        let id = current.timers().change(|heap| heap.push(waker, due));
        let worker = Arc::clone(current);
        self.0 = Timer::Set { worker, due, id };
        current.armed(context.waker());
        Poll::Pending
    }

    fn poll_outside(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some(when) = self.deadline() else {
            return Poll::Pending;
        };
        if !matches!(self.0, Timer::Outside { .. }) {
            self.disarm(); // Made on a worker, and moved here.
            let (deadline, alarm) = (Some(when), None);
            self.0 = Timer::Outside { deadline, alarm };
        }
        let Timer::Outside { alarm, .. } = &mut self.0 else {
            unreachable!("it was made one of these");
        };
        // A refused alarm thread delays this poll, and does not end the sleep early.
        let alarm = alarm.get_or_insert_with(|| Box::new(Deadline::new(Some(when))));
        let polled = alarm.poll(&outside(), context.waker());
        if polled.is_ready() {
            self.disarm();
        }
        polled
    }

    /// Makes a sleep that has ended end again, later by `period`.
    fn postpone(&mut self, period: Duration) {
        match &mut self.0 {
            Timer::Unset { due, .. } | Timer::Set { due, .. } => {
                let nanos = u64::try_from(period.as_nanos()).unwrap_or(NEVER);
                *due = due.saturating_add(nanos);
            }
            Timer::Outside { deadline, .. } => {
                *deadline = deadline.and_then(|when| when.checked_add(period));
            }
        }
    }

    /// Takes it out of the heap, or cancels the alarm.
    fn disarm(&mut self) {
        match &mut self.0 {
            Timer::Unset { .. } => {}
            Timer::Set { worker, due, id } => {
                let (timers, due) = (worker.timers(), *due);
                // Without the lock if it was fired: the heap has no timer for that time or an earlier one.
                let removed = if timers.next() <= due {
                    timers.change(|heap| heap.remove(*id))
                } else {
                    None
                };
                let worker = Arc::clone(worker);
                self.0 = Timer::Unset { worker, due };
                // USER CODE: the drop of a waker, after the unlock. A panic is caught.
                drop_quietly(removed);
            }
            Timer::Outside { alarm, .. } => {
                // USER CODE: the drop of a waker. A panic is caught.
                drop_quietly(alarm.take());
            }
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        with_current(|current| match current {
            Some(worker) => this.poll_on_worker(context, worker),
            None => this.poll_outside(context),
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

/// Error of [`timeout`]: the time was up before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timed out")
    }
}

impl std::error::Error for Elapsed {}

/// Waits for `future`, for a `Duration` or until an `Instant`. The future is polled first, so one that is ready at once
/// never times out.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::time::Duration;
///
/// let never = std::future::pending::<()>();
/// assert!(async_pool::timeout(Duration::from_millis(1), never).await.is_err());
/// assert_eq!(async_pool::timeout(Duration::ZERO, async { 42 }).await, Ok(42));
/// # });
/// ```
///
/// # Errors
/// [`Elapsed`] if the time is up. The future is dropped.
pub fn timeout<F: Future>(limit: impl Into<Timeout>, future: F) -> TimeLimited<F> {
    TimeLimited {
        sleep: Sleep::new(limit.into()),
        future: Some(future),
    }
}

/// The future of [`timeout`].
// Named, because rustc proves of no `async fn` that it is `Send` if the future is a boxed trait object with a lifetime.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct TimeLimited<F> {
    sleep: Sleep,
    /// `None` once it is ready or the time is up.
    future: Option<F>,
}

impl<F: Future> Future for TimeLimited<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` stays in its place until it is dropped there, and `sleep` is never pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let mut future = unsafe { Pin::new_unchecked(&mut this.future) };
        let running = future.as_mut().as_pin_mut();
        let running = running.expect("a future is not polled after it was ready");
        let answer = match running.poll(context) {
            Poll::Ready(value) => Ok(value),
            Poll::Pending => {
                ready!(Pin::new(&mut this.sleep).poll(context));
                Err(Elapsed(()))
            }
        };
        future.set(None);
        Poll::Ready(answer)
    }
}

/// Ticks at a fixed rate. Made by [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    sleep: Sleep,
}

/// Creates an interval whose first tick is due at once, and each further one a `period` after the one before it.
/// Ticks that nobody waited for are due one after the other.
///
/// # Panics
/// If the period is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period must not be zero");
    let sleep = sleep(Duration::ZERO);
    Interval { period, sleep }
}

impl Interval {
    /// Waits for the next tick. Returns the time at which it was due. Dropping the future loses no tick.
    pub async fn tick(&mut self) -> Instant {
        (&mut self.sleep).await;
        let due = self.sleep.deadline();
        self.sleep.postpone(self.period);
        due.unwrap_or_else(|| unreachable!("a sleep without a deadline does not end"))
    }
}

/// Lets the other tasks of a worker run: the calling task goes to the back of its queue.
pub async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

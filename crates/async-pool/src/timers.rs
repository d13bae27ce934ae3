//! Timers: one heap per worker, and the futures that wait for a time.
//!
//! On a worker of a pool a timer is an entry in that worker's heap, at some 40 bytes and no system call. Elsewhere it is
//! an alarm of the process's alarm thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use delay_queue::{DelayHeap, EntryId};
use pool_core::{Clock, Timeout};
use sync_shim::atomic::{AtomicU64, Ordering::SeqCst};
use sync_shim::foreign::{drop_quietly, wake};
use sync_shim::{Alarm, Mutex};

use crate::worker::{Shared, last_now, with_current};

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

/// How many timers a worker fires in a row.
const MOST_FIRED: usize = 64;

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

    /// Whether the timer has not been fired, and is for this waker.
    fn is_set(&self, id: EntryId, waker: &Waker) -> bool {
        let heap = self.heap.lock();
        heap.get(id).is_some_and(|set| set.will_wake(waker))
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

/// Waits for `duration`. Never ends early.
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
pub struct Sleep {
    /// `None` if it cannot be expressed: never.
    deadline: Option<Instant>,
    entry: Entry,
}

enum Entry {
    None,
    /// In the heap of this worker.
    Heap(Arc<Shared>, u32, EntryId),
    /// By the monotonic clock, for this waker.
    Alarm(Waker, Alarm),
}

impl Sleep {
    fn new(timeout: Timeout) -> Self {
        // USER CODE: `Clock::now`. A panic is the caller's.
        let deadline = with_current(|current| match current {
            Some((shared, _)) => timeout.deadline(&*shared.clock),
            None => timeout.deadline(&outside()),
        });
        Self {
            deadline,
            entry: Entry::None,
        }
    }

    /// Returns the time at which it ends, or `None` if that is never.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn poll_on_worker(
        &mut self,
        deadline: Instant,
        context: &Context<'_>,
        shared: &Arc<Shared>,
        worker: u32,
    ) -> Poll<()> {
        let due = shared.since_epoch(deadline);
        // By the time of the round: no clock is read. A time that lies back ends no sleep early.
        if due <= last_now() {
            self.disarm();
            return Poll::Ready(());
        }
        if let Entry::Heap(shared, worker, id) = &self.entry
            && shared.timers(*worker).is_set(*id, context.waker())
        {
            return Poll::Pending;
        }
        self.disarm();
        // USER CODE: the waker's clone, with no lock held.
        let waker = context.waker().clone();
        let id = shared.timers(worker).change(|heap| heap.push(waker, due));
        self.entry = Entry::Heap(Arc::clone(shared), worker, id);
        Poll::Pending
    }

    fn poll_elsewhere(&mut self, deadline: Instant, context: &Context<'_>) -> Poll<()> {
        if outside().now() >= deadline {
            self.disarm();
            return Poll::Ready(());
        }
        match &self.entry {
            Entry::Alarm(waker, _) if waker.will_wake(context.waker()) => return Poll::Pending,
            _ => self.disarm(),
        }
        // USER CODE: the waker's clone.
        let waker = context.waker().clone();
        self.entry = match outside().wake_at(deadline, waker.clone()) {
            Ok(alarm) => Entry::Alarm(waker, alarm),
            // Without an alarm thread the only way to keep the time is to look again at once.
            Err(_) => {
                wake(waker);
                Entry::None
            }
        };
        Poll::Pending
    }

    fn disarm(&mut self) {
        match std::mem::replace(&mut self.entry, Entry::None) {
            Entry::Heap(shared, worker, id) => {
                let timers = shared.timers(worker);
                let due = self.deadline.map_or(NEVER, |when| shared.since_epoch(when));
                // Without the lock if it was fired: the heap has no timer for that time or an earlier one.
                if timers.next() <= due {
                    let removed = timers.change(|heap| heap.remove(id));
                    // USER CODE: the drop of a waker, after the unlock. A panic is caught.
                    drop_quietly(removed);
                }
            }
            // USER CODE: the drop of a waker.
            Entry::Alarm(waker, alarm) => {
                drop(alarm);
                drop_quietly(waker);
            }
            Entry::None => {}
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else {
            return Poll::Pending;
        };
        let this = self.get_mut();
        with_current(|current| match current {
            Some((shared, worker)) => this.poll_on_worker(deadline, context, shared, worker),
            None => this.poll_elsewhere(deadline, context),
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
            .field("deadline", &self.deadline)
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
pub async fn timeout<F: Future>(
    limit: impl Into<Timeout>,
    future: F,
) -> Result<F::Output, Elapsed> {
    let mut sleep = Sleep::new(limit.into());
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        Pin::new(&mut sleep)
            .poll(context)
            .map(|()| Err(Elapsed(())))
    })
    .await
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
        let due = self.sleep.deadline;
        self.sleep.deadline = due.and_then(|due| due.checked_add(self.period));
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

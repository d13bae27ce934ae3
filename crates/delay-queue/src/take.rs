//! Waiting for a due entry, as a thread and as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::thread::spin_loop;
use sync_shim::{Clock, Parker, Timeout};

use crate::builder::DefaultClock;
use crate::expired::Expired;
use crate::queue::Shared;
use crate::state::State;
use crate::wait::{Driver, Unavailable, WaitError, WaiterId};
use crate::{DelayQueue, TakeError};

impl From<Unavailable> for TakeError {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::Closed => Self::Closed,
            Unavailable::Empty => Self::Empty,
            Unavailable::NotDue => Self::NotDue,
        }
    }
}

impl From<WaitError> for TakeError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Closed => Self::Closed,
            WaitError::TimedOut => Self::TimedOut,
            WaitError::NoAlarm(error) => Self::NoAlarm(error),
            WaitError::Forked => Self::Forked,
        }
    }
}

impl<T, C: Clock> DelayQueue<T, C> {
    /// Takes the earliest entry. Blocks until one is due.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// queue.push_at("later", soon + Duration::from_millis(1))?;
    /// queue.push_at("sooner", soon)?;
    /// assert_eq!(queue.take()?.value, "sooner");
    /// assert_eq!(queue.take()?.value, "later");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TakeError::Closed`] once the queue is closed and no entry can fall due. In a forked child,
    /// every call that would wait returns [`TakeError::Forked`] instead.
    #[doc(alias = "recv")]
    #[doc(alias = "expire")]
    #[doc(alias = "poll_expired")]
    pub fn take(&self) -> Result<Expired<T>, TakeError> {
        self.0.take(None)
    }

    /// Like [`take`](DelayQueue::take), but waits for at most a duration, or until an instant.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::{DelayQueue, TakeError};
    ///
    /// let queue = DelayQueue::new();
    /// queue.push("tomorrow", Duration::from_secs(86_400))?;
    /// let taken = queue.take_timeout(Duration::from_millis(1));
    /// assert!(matches!(taken, Err(TakeError::TimedOut)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TakeError::TimedOut`] and [`TakeError::Closed`].
    pub fn take_timeout(&self, timeout: impl Into<Timeout>) -> Result<Expired<T>, TakeError> {
        self.0.take(timeout.into().deadline(&self.0.config.clock))
    }

    /// Async version of [`take`](DelayQueue::take). Needs no particular runtime: the clock wakes
    /// the future.
    ///
    /// A future that is dropped before it is ready takes no entry, notified or not: its
    /// notification goes to the next waiter. A future that is polled again keeps its place in the
    /// wait queue, and is woken by the waker of its last poll. Its output is an error as in
    /// [`take`](DelayQueue::take), or [`TakeError::NoAlarm`]. A future that is polled after it was
    /// ready takes the next entry.
    ///
    /// The future does not yield while entries are due, so a loop over it occupies its executor's
    /// thread until the backlog is empty. If other tasks share the thread, call the runtime's
    /// `yield_now` in the loop.
    ///
    /// Wakers run one after another, on the thread whose call made the entry ready, or on the
    /// thread of the clock's alarm. A waker that blocks delays the later ones of the same call. With
    /// the system's clock, all queues of the process share one alarm thread, and a waker that blocks
    /// there delays all of them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// queue.push("tick", Duration::from_millis(1))?;
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let taken = runtime.block_on(queue.take_async())?;
    /// assert_eq!(taken.value, "tick");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_async(&self) -> TakeFuture<T, C> {
        TakeFuture {
            shared: Arc::clone(&self.0),
            id: None,
        }
    }
}

impl<T, C: Clock> Shared<T, C> {
    fn take(&self, deadline: Option<Instant>) -> Result<Expired<T>, TakeError> {
        let taken = self.section(|state, effects| {
            self.advance(state);
            state.take(effects)
        });
        let entry = match taken {
            Ok(entry) => entry,
            Err(_) => self.wait(&Parker::of_thread(), deadline, State::take_at_last)?,
        };
        Ok(self.expired(entry))
    }

    /// Spins until the entry is due, until it is no longer the earliest, or until the thread is
    /// woken. Returns `false` if the deadline passed first.
    pub(crate) fn spin_until(&self, due: u64, parker: &Parker, deadline: Option<Instant>) -> bool {
        loop {
            // USER CODE: `Clock::now`, by an enqueued thread that leads. A panic dequeues it and passes the lead on.
            let now = self.config.clock.now();
            if self.epoch.nanos(now) >= due
                // Relaxed: the value only ends the spin. Entries are read under the lock.
                || self.earliest.load(Relaxed) != due
                || parker.take_token()
            {
                return true;
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return false;
            }
            spin_loop();
        }
    }
}

/// Future of the next due entry. [`DelayQueue::take_async`] has an example.
#[must_use = "a future does nothing until it is polled"]
pub struct TakeFuture<T, C: Clock = DefaultClock> {
    shared: Arc<Shared<T, C>>,
    id: Option<WaiterId>,
}

impl<T, C: Clock> Future for TakeFuture<T, C> {
    type Output = Result<Expired<T>, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, id } = &mut *self;
        let polled = shared.poll_wait(id, context, State::take_at_last);
        polled.map(|taken| Ok(shared.expired(taken?)))
    }
}

impl<T, C: Clock> Drop for TakeFuture<T, C> {
    fn drop(&mut self) {
        self.shared.cancel_wait(&mut self.id);
    }
}

impl<T, C: Clock> std::fmt::Debug for TakeFuture<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TakeFuture").finish_non_exhaustive()
    }
}

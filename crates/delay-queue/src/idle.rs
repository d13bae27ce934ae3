//! Waiting until the queue is idle, as a thread and as a future.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use sync_shim::foreign::drop_quietly;
use sync_shim::{Clock, Parker, Timeout};

use crate::DelayQueue;
use crate::builder::DefaultClock;
use crate::queue::Shared;
use crate::wait::{Driver, Waiter, WaiterId, WakeList};

/// Waiters for an idle queue. Held under the queue's lock.
///
/// A waiter is enqueued in the section that finds the queue busy. The section that makes the queue
/// idle dequeues all of them, so a waiter that is no longer queued has been notified.
#[derive(Default)]
pub(crate) struct IdleWaiters {
    queued: BTreeMap<WaiterId, Waiter>,
    next_id: WaiterId,
}

impl IdleWaiters {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    fn enqueue(&mut self, waiter: Waiter) -> WaiterId {
        self.next_id += 1;
        self.queued.insert(self.next_id, waiter);
        self.next_id
    }

    /// Replaces the waiter if it is still queued. The returned waiter must be dropped after the
    /// lock is released.
    fn replace(&mut self, id: WaiterId, by: Waiter) -> Result<Waiter, Waiter> {
        match self.queued.get_mut(&id) {
            Some(waiter) => Ok(std::mem::replace(waiter, by)),
            None => Err(by),
        }
    }

    /// Dequeues a waiter that has not been notified.
    fn leave(&mut self, id: WaiterId) -> Option<Waiter> {
        self.queued.remove(&id)
    }

    /// Called when the queue becomes idle.
    pub(crate) fn notify_all(&mut self, wakes: &mut WakeList) {
        while let Some((_, waiter)) = self.queued.pop_first() {
            wakes.push(waiter);
        }
    }
}

impl<T, C: Clock> DelayQueue<T, C> {
    /// Blocks until the queue is idle: it contains no entry, due or not, and no channel's feeder
    /// offers one. An entry that never falls due keeps the queue busy.
    ///
    /// Other threads may push at any time, so the queue may be busy again when the call returns.
    /// Entries that were taken no longer count, although their consumers may still work on them.
    ///
    /// Returns `true`, except in a forked child, where it does not wait.
    ///
    /// ```
    /// use std::{thread, time::Duration};
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// queue.push("tick", Duration::from_millis(1))?;
    /// thread::scope(|scope| {
    ///     scope.spawn(|| queue.take());
    ///     queue.wait_idle();
    /// });
    /// assert!(queue.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "join")]
    #[doc(alias = "flush")]
    pub fn wait_idle(&self) -> bool {
        self.0.wait_idle(None)
    }

    /// Like [`wait_idle`](DelayQueue::wait_idle), but waits for at most `timeout`. Returns `false`
    /// on time-out.
    #[must_use = "it tells whether the queue was idle"]
    pub fn wait_idle_timeout(&self, timeout: impl Into<Timeout>) -> bool {
        self.0
            .wait_idle(timeout.into().deadline(&self.0.config.clock))
    }

    /// Async version of [`wait_idle`](DelayQueue::wait_idle). A future that is polled after it was
    /// ready waits again.
    pub fn wait_idle_async(&self) -> WaitIdleFuture<T, C> {
        WaitIdleFuture {
            shared: Arc::clone(&self.0),
            id: None,
        }
    }
}

impl<T, C: Clock> Shared<T, C> {
    fn wait_idle(&self, deadline: Option<Instant>) -> bool {
        if !self.process().is_current() {
            return false;
        }
        let parker = Parker::of_thread();
        let enqueued = self.section(|state, _| {
            let waiter = || Waiter::Thread(parker.clone());
            (!state.is_idle()).then(|| state.idle.enqueue(waiter()))
        });
        let Some(id) = enqueued else {
            return true;
        };
        let _place = Place { shared: self, id };
        loop {
            let in_time = sleep(&self.config.clock, &parker, deadline);
            let is_queued = self.section(|state, _| state.idle.queued.contains_key(&id));
            if !is_queued || !in_time {
                return !is_queued;
            }
        }
    }
}

/// Sleeps until woken, possibly spuriously. Returns `false` if the deadline has passed.
pub(crate) fn sleep(clock: &impl Clock, parker: &Parker, deadline: Option<Instant>) -> bool {
    match deadline {
        None => {
            parker.park();
            true
        }
        Some(deadline) => clock.park_until(parker, deadline),
    }
}

/// A waiting thread's place in the wait queue. Also given up if the clock panics.
struct Place<'s, T, C: Clock> {
    shared: &'s Shared<T, C>,
    id: WaiterId,
}

impl<T, C: Clock> Drop for Place<'_, T, C> {
    fn drop(&mut self) {
        // The waiter is this thread's parker, so no user code is dropped under the lock.
        self.shared
            .section(|state, _| _ = state.idle.leave(self.id));
    }
}

/// Future that is ready once a queue is idle. See [`DelayQueue::wait_idle_async`].
///
/// ```
/// use delay_queue::DelayQueue;
///
/// async fn drained(queue: &DelayQueue<u32>) {
///     if queue.wait_idle_async().await {
///         println!("nothing is pending");
///     }
/// }
/// ```
#[must_use = "a future does nothing until it is polled"]
pub struct WaitIdleFuture<T, C: Clock = DefaultClock> {
    shared: Arc<Shared<T, C>>,
    id: Option<WaiterId>,
}

impl<T, C: Clock> Future for WaitIdleFuture<T, C> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let Self { shared, id } = &mut *self;
        if !shared.process().is_current() {
            return Poll::Ready(false);
        }
        // Cloned before the lock is taken and dropped after it is released: both are user code.
        let waiter = Waiter::Task(Waker::clone(context.waker()));
        let (unused, polled) = shared.section(|state, _| match *id {
            Some(queued) => match state.idle.replace(queued, waiter) {
                Ok(old) => (Some(old), Poll::Pending),
                Err(waiter) => (Some(waiter), Poll::Ready(true)),
            },
            None if state.is_idle() => (Some(waiter), Poll::Ready(true)),
            None => {
                *id = Some(state.idle.enqueue(waiter));
                (None, Poll::Pending)
            }
        });
        if polled.is_ready() {
            *id = None;
        }
        drop_quietly(unused);
        polled
    }
}

impl<T, C: Clock> Drop for WaitIdleFuture<T, C> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let waiter = self.shared.section(|state, _| state.idle.leave(id));
            drop_quietly(waiter); // User code: the lock is free.
        }
    }
}

impl<T, C: Clock> fmt::Debug for WaitIdleFuture<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitIdleFuture").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;

    #[testkit::test]
    fn waits_that_end_in_any_way_leave_no_waiter_behind() {
        let queue = DelayQueue::new();
        let id = queue.push((), Duration::MAX).expect("the queue is open");
        let mut context = Context::from_waker(Waker::noop());
        let mut futures: Vec<_> = (0..10).map(|_| queue.wait_idle_async()).collect();
        for future in &mut futures {
            assert!(Pin::new(future).poll(&mut context).is_pending());
        }
        let queued = || queue.0.peek(|state| state.idle.queued.len());
        assert_eq!(queued(), 10);
        assert!(!queue.wait_idle_timeout(Duration::ZERO));
        futures.truncate(5);
        assert_eq!(queued(), 5);
        queue.cancel(id);
        assert_eq!(queued(), 0);
        for mut future in futures {
            assert!(Pin::new(&mut future).poll(&mut context).is_ready());
        }
    }
}

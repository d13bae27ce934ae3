//! Waits of a group's owners: threads, which run tasks in place on an own worker, and futures.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use pool_core::internals::{Deadline, JOIN_SPIN, PoolHandle, look_before_join, spin_until};
use pool_core::{JoinError, WaitError};
use sync_shim::atomic::AtomicBool;
use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::waiter::Waiter;
use sync_shim::{Mutex, Parker};

use super::shared::{Ended, Shared, Until};
use super::tally::Tally;

/// A group without the type of its values.
pub(super) struct Group {
    pub(super) shared: Arc<Shared>,
    pool: PoolHandle,
    expiry: Option<Expiry>,
    /// Whether `Forked` was returned once. Relaxed: no other memory is read because of it.
    has_told: AtomicBool,
}

/// The deadline of a group.
struct Expiry {
    at: Instant,
    /// One alarm for all futures, which wakes `cancels`. Its lock is held while the clock's code runs and
    /// that waker is cloned, but not while tasks are cancelled.
    alarm: Mutex<Deadline>,
    cancels: Arc<Cancels>,
}

/// Cancels a group once.
struct Cancels {
    /// Relaxed: the cancelling itself takes the group's lock.
    is_done: AtomicBool,
    shared: Arc<Shared>,
}

impl Wake for Cancels {
    fn wake(self: Arc<Self>) {
        self.cancel();
    }
}

impl Cancels {
    fn cancel(&self) {
        if !self.is_done.swap(true, Relaxed) {
            self.shared.cancel();
        }
    }
}

impl Group {
    pub(super) fn of(pool: PoolHandle) -> Self {
        Self {
            shared: Arc::new(Shared::new()),
            pool,
            expiry: None,
            has_told: AtomicBool::new(false),
        }
    }

    pub(super) fn cancel_at(&mut self, at: Instant) {
        self.expiry = Some(Expiry {
            at,
            alarm: Mutex::new(Deadline::new(Some(at))),
            cancels: Arc::new(Cancels {
                is_done: AtomicBool::new(false),
                shared: Arc::clone(&self.shared),
            }),
        });
    }

    /// # Errors
    /// In a forked child, where threads of the parent may hold the locks, the value for `next` to return:
    /// `Forked` once, then `None`, so that loops over `next` end.
    fn check_next(&self) -> Result<(), Option<Ended>> {
        self.pool.process().check(()).map_err(|()| {
            let has_told = self.has_told.swap(true, Relaxed);
            (!has_told).then(|| Ended::Error(JoinError::Forked))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.shared.len()
    }

    pub(super) fn cancel(&self) -> usize {
        self.shared.cancel()
    }

    /// Cancels the group if its deadline has passed. Returns a deadline that is still to come.
    fn cancel_in_time(&self) -> Option<Instant> {
        let expiry = self.expiry.as_ref()?;
        if expiry.cancels.is_done.load(Relaxed) {
            return None;
        }
        if self.pool.clock().now() < expiry.at {
            return Some(expiry.at);
        }
        expiry.cancels.cancel();
        None
    }

    /// Like [`cancel_in_time`](Self::cancel_in_time), and sets an alarm for a deadline that is still to come.
    fn cancel_by_alarm(&self) {
        if self.cancel_in_time().is_some()
            && let Some(expiry) = &self.expiry
        {
            let waker = Waker::from(Arc::clone(&expiry.cancels));
            let clock = &**self.pool.clock();
            let has_passed = expiry.alarm.lock().has_passed(clock, &waker);
            if has_passed {
                self.cancel_in_time(); // If the clock has no alarm thread, the next look cancels.
            }
        }
    }

    pub(super) fn next(&self) -> Option<Ended> {
        let next = self.next_until(None, Until::Next);
        next.unwrap_or_else(|_| unreachable!("a wait without a limit has an outcome"))
    }

    pub(super) fn try_next(&self) -> Option<Ended> {
        self.pool.process().check(()).ok()?;
        match self.shared.take() {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }

    pub(super) fn next_until(
        &self,
        deadline: Option<Instant>,
        until: Until,
    ) -> Result<Option<Ended>, WaitError> {
        if let Err(next) = self.check_next() {
            return Ok(next);
        }
        self.cancel_in_time();
        if let Poll::Ready(next) = self.shared.take() {
            return Ok(next);
        }
        let helps = deadline.is_none() && self.pool.is_own_worker();
        if !helps {
            let ready = || self.shared.seems_ready(until);
            if self.shared.has_one_left() {
                look_before_join(ready);
            } else {
                spin_until(JOIN_SPIN, ready); // More tasks may end meanwhile, which saves wake-ups.
            }
        }
        let parker = Parker::of_thread();
        loop {
            if helps {
                self.cancel_by_alarm();
                if let Poll::Ready(next) = self.help() {
                    return Ok(next);
                }
            }
            let end = self.cancel_in_time();
            let waiter = Waiter::Thread(parker.clone());
            let ticket = match self.shared.take_or_wait(until, waiter) {
                Ok(next) => return Ok(next),
                Err(ticket) => ticket,
            };
            let is_woken = match deadline.into_iter().chain(end).min() {
                None => {
                    parker.park();
                    true
                }
                Some(when) => self.pool.clock().park_until(&parker, when),
            };
            // Always, because the parker belongs to the thread and other waits of the thread may have unparked it.
            self.shared.leave(until, ticket);
            if !is_woken && deadline.is_some_and(|deadline| end.is_none_or(|end| deadline <= end)) {
                self.cancel_in_time();
                return match self.shared.take() {
                    Poll::Ready(next) => Ok(next),
                    Poll::Pending => Err(WaitError::TimedOut),
                };
            }
        }
    }

    pub(super) fn wait(&self, until: Until) -> Result<(), JoinError> {
        let waited = self.wait_until(until, None);
        waited.unwrap_or_else(|_| unreachable!("a wait without a limit has an outcome"))
    }

    pub(super) fn wait_until(
        &self,
        until: Until,
        deadline: Option<Instant>,
    ) -> Result<Result<(), JoinError>, WaitError> {
        if let Err(forked) = self.pool.process().check(JoinError::Forked) {
            return Ok(Err(forked));
        }
        let mut tally = Tally::new();
        loop {
            match self.next_until(deadline, until) {
                Ok(Some(ended)) => tally.add(|| ended.drop_value()),
                Ok(None) => return Ok(tally.outcome()),
                Err(timed_out) => {
                    _ = tally.outcome();
                    return Err(timed_out);
                }
            }
        }
    }

    pub(super) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<Ended>> {
        if let Err(next) = self.check_next() {
            return Poll::Ready(next);
        }
        self.cancel_by_alarm();
        if let Poll::Ready(next) = self.help() {
            return Poll::Ready(next);
        }
        self.shared.poll(context)
    }

    /// Takes an end. On an own worker runs tasks that have not started until there is one, as the blocking calls do.
    fn help(&self) -> Poll<Option<Ended>> {
        if !self.pool.is_own_worker() {
            return Poll::Pending;
        }
        let mut taken = self.shared.take();
        while taken.is_pending() && self.shared.help() {
            taken = self.shared.take();
        }
        taken
    }

    pub(super) fn next_async(&self) -> Next<'_> {
        self.next_async_until(Until::Next)
    }

    fn next_async_until(&self, until: Until) -> Next<'_> {
        let ticket = None;
        Next {
            group: self,
            until,
            ticket,
        }
    }

    pub(super) async fn wait_async(&self, until: Until) -> Result<(), JoinError> {
        self.pool.process().check(JoinError::Forked)?;
        let mut tally = Tally::new();
        while let Some(ended) = self.next_async_until(until).await {
            tally.add(|| ended.drop_value());
        }
        tally.outcome()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.pool.process().is_current() {
            self.shared.close();
        } else {
            mem::forget(Arc::clone(&self.shared));
        }
    }
}

/// Future of the next end.
pub(super) struct Next<'a> {
    group: &'a Group,
    until: Until,
    ticket: Option<u64>,
}

impl Next<'_> {
    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.group.shared.leave(self.until, ticket);
        }
    }
}

impl Future for Next<'_> {
    type Output = Option<Ended>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Ended>> {
        if let Err(next) = self.group.check_next() {
            return Poll::Ready(next);
        }
        self.group.cancel_by_alarm();
        self.leave();
        if let Poll::Ready(next) = self.group.help() {
            return Poll::Ready(next);
        }
        // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's.
        let waiter = Waiter::Task(context.waker().clone());
        match self.group.shared.take_or_wait(self.until, waiter) {
            Ok(next) => Poll::Ready(next),
            Err(ticket) => {
                self.ticket = Some(ticket);
                Poll::Pending
            }
        }
    }
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        if self.group.pool.process().is_current() {
            self.leave();
        }
    }
}

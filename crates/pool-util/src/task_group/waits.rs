//! Waits of a group's owners: threads, which run tasks in place on an own worker, and futures. Also the
//! admission of its tasks.

use std::cell::Cell;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Instant;

use pool_core::internals::{Admit, JOIN_SPIN, PoolHandle, RawHandle, look_before_join, spin_until};
use pool_core::{JoinError, OnFull, SubmitError, WaitError};
use sync_shim::atomic::AtomicBool;
use sync_shim::atomic::Ordering::{Acquire, Relaxed, Release};
use sync_shim::foreign::guarded;
use sync_shim::waiter::Waiter;
use sync_shim::{Deadline, Mutex, Parker, Time};

use super::panics::Panics;
use super::shared::{Ended, IsFailure, Shared, Until};

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

/// Cancels a group.
struct Cancels {
    // Release and Acquire: whoever sees it sees the group cancelled.
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
        if !self.is_done.load(Acquire) {
            self.shared.cancel();
            self.is_done.store(true, Release);
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

    /// Whether the group refuses tasks, because it was cancelled, has failed, or its deadline has passed. If
    /// the deadline is still to come, the clock's alarm thread cancels the group at that time.
    pub(super) fn refuses(&self) -> bool {
        // In a forked child the pool refuses the task.
        if !self.pool.process().is_current() {
            return false;
        }
        self.cancel_by_alarm();
        self.shared.is_cancelled()
    }

    /// Submits a task of the group. The task belongs to the group before it is run in place, or once it is
    /// accepted.
    ///
    /// # Errors
    /// The reason, and the task's handle.
    pub(super) fn admit<A: Admit>(
        &self,
        pools: &Arc<A>,
        mut handle: RawHandle,
        on_full: OnFull,
        is_submitted: bool,
    ) -> Result<(), (SubmitError, RawHandle)> {
        if let Err((choice, job)) = pools.place_spawned(&mut handle) {
            let runs_in_place = Cell::new(false);
            let before_in_place = || {
                runs_in_place.set(true);
                self.shared.adopt_in_place(handle.task(), is_submitted);
            };
            let limits = handle.cell().limits().unwrap_or_default();
            let limits = limits.in_group(self.shared.token(), &before_in_place);
            let admitted = pools.admit_chosen(choice, &mut Some(job), on_full, Some(&limits));
            if runs_in_place.get() {
                _ = handle.into_task(); // The group has another reference.
                return Ok(());
            }
            match admitted {
                Ok(pool) => pools.set_pool(pool, &mut handle),
                Err(refused) => return Err((refused, handle)),
            }
        }
        self.shared.adopt(handle.into_task(), is_submitted);
        Ok(())
    }

    /// Async version of [`admit`](Self::admit). Runs no task in place.
    pub(super) async fn admit_async<A: Admit>(
        &self,
        pools: &Arc<A>,
        handle: RawHandle,
        is_submitted: bool,
    ) -> Result<(), (SubmitError, RawHandle)> {
        if self.refuses() {
            pools.count_unoffered();
            return Err((SubmitError::Cancelled(()), handle));
        }
        let cancelled = self.shared.token().cancelled();
        let wait = Arc::clone(pools).admit_async(handle.job(), Some(cancelled));
        let (admitted, mut handle) = Admitting::new(pools, wait, handle).await;
        match admitted {
            Ok(pool) => pools.set_pool(pool, &mut handle),
            Err(refused) => return Err((refused.without_task(), handle)),
        }
        self.shared.adopt(handle.into_task(), is_submitted);
        Ok(())
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
        if expiry.cancels.is_done.load(Acquire) {
            return None;
        }
        if self.pool.clock().now() < expiry.at {
            return Some(expiry.at);
        }
        expiry.cancels.cancel();
        None
    }

    /// Like [`cancel_in_time`](Self::cancel_in_time), and sets an alarm for a deadline that is still to come.
    /// Returns the deadline if no alarm can be set: the caller must look again in time.
    fn cancel_by_alarm(&self) -> Option<Instant> {
        self.cancel_in_time()?;
        let expiry = self.expiry.as_ref()?;
        let waker = Waker::from(Arc::clone(&expiry.cancels));
        let clock = &**self.pool.clock();
        let time = expiry.alarm.lock().arm(clock, &waker);
        match time {
            Time::Left => None,
            Time::Up => self.cancel_in_time(),
            Time::LeftWithoutAlarm(at) => Some(at),
        }
    }

    /// Ends a poll that is pending. Has it repeated if the deadline has no alarm.
    fn pend<R>(&self, without_alarm: Option<Instant>, waker: &Waker) -> Poll<R> {
        if let Some(at) = without_alarm {
            sync_shim::pace(&**self.pool.clock(), at);
            // USER CODE: the poll's own waker. A panic is the poller's.
            waker.wake_by_ref();
        }
        Poll::Pending
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
                // Without an alarm, the deadline is looked at between tasks.
                _ = self.cancel_by_alarm();
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

    /// Waits for all tasks, drops their values, and returns the first error. With `is_failure` this may be a
    /// task whose value is an `Err`.
    pub(super) fn wait(&self, until: Until, is_failure: Option<IsFailure>) -> Option<Ended> {
        let waited = self.wait_until(until, None, is_failure);
        waited.unwrap_or_else(|_| unreachable!("a wait without a limit has an outcome"))
    }

    pub(super) fn wait_until(
        &self,
        until: Until,
        deadline: Option<Instant>,
        is_failure: Option<IsFailure>,
    ) -> Result<Option<Ended>, WaitError> {
        if let Err(forked) = self.pool.process().check(JoinError::Forked) {
            return Ok(Some(Ended::Error(forked)));
        }
        let (failures, mut panics) = (self.failures(is_failure), Panics::new());
        loop {
            match self.next_until(deadline, until) {
                Ok(Some(ended)) => self.settle(ended, failures, &mut panics),
                Ok(None) => {
                    panics.resume();
                    return Ok(self.shared.take_kept(is_failure.is_some()));
                }
                Err(timed_out) => {
                    panics.resume();
                    return Err(timed_out);
                }
            }
        }
    }

    pub(super) async fn wait_async(
        &self,
        until: Until,
        is_failure: Option<IsFailure>,
    ) -> Option<Ended> {
        if let Err(forked) = self.pool.process().check(JoinError::Forked) {
            return Some(Ended::Error(forked));
        }
        let (failures, mut panics) = (self.failures(is_failure), Panics::new());
        while let Some(ended) = self.next_async_until(until).await {
            self.settle(ended, failures, &mut panics);
        }
        panics.resume();
        self.shared.take_kept(is_failure.is_some())
    }

    /// The values that a wait keeps: a later wait may return those that fail the group.
    fn failures(&self, is_failure: Option<IsFailure>) -> Option<IsFailure> {
        is_failure.or_else(|| self.shared.failures())
    }

    /// Drops the value of a task that a wait has taken. Keeps the first error in the group, because the wait
    /// may end before it can return the error.
    fn settle(&self, ended: Ended, failures: Option<IsFailure>, panics: &mut Panics) {
        if let Ended::Task(task) = &ended
            && failures.is_some_and(|is| task.cell().is_value(is))
        {
            return self.shared.keep_for_wait(ended);
        }
        // USER CODE: the drop of a task's value. The first panic continues after the wait.
        match guarded(|| ended.drop_value()) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.shared.keep_for_wait(Ended::Error(error)),
            Err(payload) => panics.add(payload),
        }
    }

    pub(super) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<Ended>> {
        if let Err(next) = self.check_next() {
            return Poll::Ready(next);
        }
        let without_alarm = self.cancel_by_alarm();
        if let Poll::Ready(next) = self.help() {
            return Poll::Ready(next);
        }
        match self.shared.poll(context) {
            Poll::Pending => self.pend(without_alarm, context.waker()),
            ready @ Poll::Ready(_) => ready,
        }
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

/// A wait for room. Dropped before it is ready, it cancels the task if a pool has just accepted it: the task is in no
/// group yet.
struct Admitting<'a, A: Admit> {
    pools: &'a Arc<A>,
    wait: A::Future,
    /// `None` once the wait is over.
    handle: Option<RawHandle>,
}

impl<'a, A: Admit> Admitting<'a, A> {
    fn new(pools: &'a Arc<A>, wait: A::Future, handle: RawHandle) -> Self {
        let handle = Some(handle);
        Self {
            pools,
            wait,
            handle,
        }
    }
}

impl<A: Admit> Future for Admitting<'_, A> {
    type Output = (<A::Future as Future>::Output, RawHandle);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let admitted = ready!(Pin::new(&mut self.wait).poll(context));
        let handle = self.handle.take().expect("a future is ready once");
        Poll::Ready((admitted, handle))
    }
}

impl<A: Admit> Drop for Admitting<'_, A> {
    fn drop(&mut self) {
        if let Some(mut handle) = self.handle.take()
            && let Some(pool) = A::give_up(&mut self.wait)
        {
            self.pools.set_pool(pool, &mut handle);
            handle.task().cancel();
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
        let without_alarm = self.group.cancel_by_alarm();
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
                self.group.pend(without_alarm, context.waker())
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

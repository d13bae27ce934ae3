//! Waiting for rest: no schedule is due or running, and no task is in flight in the pool.
//!
//! Not for: schedules that are due later. A wait for rest ignores them.
//!
//! # Why no task is overlooked
//! A due schedule goes from the heap to the pool, and a task of the pool may schedule another, due at
//! once. So the last check covers both: under the timer's lock every schedule is pending and all pools are
//! idle. An idle pool schedules no task, and no pending schedule was due at that instant, by a clock that
//! is read afterwards.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use pool_core::internals::EventWait;
use pool_core::{Timeout, WaitError};

use crate::base::{Base, Members};
use crate::executor::Executor;
use crate::pool::ScheduledPool;
use crate::timer::Core;
use crate::wait_async::{Awaited, StateFuture};

impl<S: Executor> Core<S> {
    /// Step 12: blocks until every due schedule has ended. Returns `false` if the deadline passed first.
    pub fn wait_quiet(&self, deadline: Option<Instant>) -> bool {
        loop {
            let mut quiet = EventWait::of_thread();
            let now = self.now();
            let mut state = self.state.lock();
            if state.is_quiet(now) {
                return true;
            }
            quiet.enter(&mut state.quiet_waiters);
            drop(state);
            // At the deadline the section that dequeues the event decides, as in `wait_released`.
            if !quiet.wait_until(&*self.clock, deadline)
                && !quiet.leave(&mut self.state.lock().quiet_waiters)
            {
                return false;
            }
        }
    }

    /// Returns whether every due schedule has ended and `at_rest` returns `true` at the same instant.
    /// `at_rest` is called under the lock.
    pub fn is_quiet_while(&self, at_rest: impl FnOnce() -> bool) -> bool {
        let state = self.state.lock();
        let next_due = state.next_due_if_all_are_pending();
        let next_due = next_due.filter(|_| at_rest());
        drop(state);
        // "A due time that comes during the look": the clock is read after the look.
        next_due.is_some_and(|due| due > self.now())
    }
}

/// Waiting for rest.
impl<P: Base> ScheduledPool<P> {
    /// Blocks until there is an instant at which the pool is idle and every due schedule has ended: no
    /// schedule is late, waits for room, or runs, and no other task is in flight in the pool.
    ///
    /// Ignores schedules that are due later, and series between two runs; for these use
    /// [`wait_released`](Self::wait_released) after a release. The scheduled pool stays open, so new tasks
    /// may be running when the call returns.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pool_core::Pool;
    /// use scheduled_pool::ScheduledPool;
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let again = scheduled.clone();
    /// let now = scheduled.spawn_after(Duration::ZERO, move || {
    ///     again.spawn_after(Duration::ZERO, || println!("then this"))
    /// })?;
    /// let later = scheduled.spawn_after(Duration::from_secs(3600), || ())?;
    /// scheduled.wait_idle()?;
    /// assert!(now.is_finished() && !later.is_finished());
    /// assert_eq!(scheduled.stats().ended, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WouldDeadlock`](WaitError::WouldDeadlock) on one of the pool's workers,
    /// [`Forked`](WaitError::Forked) in a forked child.
    pub fn wait_idle(&self) -> Result<(), WaitError> {
        self.wait_for_rest(None)
    }

    /// [`wait_idle`](Self::wait_idle) with a timeout on the pool's clock.
    ///
    /// # Errors
    /// The errors of `wait_idle`, and [`TimedOut`](WaitError::TimedOut).
    pub fn wait_idle_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), WaitError> {
        self.wait_for_rest(timeout.into().deadline(&*self.core().clock))
    }

    /// Async version of [`wait_idle`](Self::wait_idle), for any runtime. The instant is after the first poll.
    /// The future does not keep the scheduled pool open, and can be dropped at any time.
    ///
    /// # Errors
    /// [`WouldDeadlock`](WaitError::WouldDeadlock) if it is polled on one of the pool's workers,
    /// [`Forked`](WaitError::Forked) in a forked child.
    pub fn wait_idle_async(&self) -> impl Future<Output = Result<(), WaitError>> + Send + use<P> {
        let (core, members) = (Arc::clone(self.core()), self.members().clone());
        async move {
            loop {
                let (ours, pools) = (Arc::clone(&core), members.clone());
                StateFuture::new(ours, pools, Awaited::Quiet, None).await?;
                for (handle, _) in members.each() {
                    handle.wait_idle_async().await?;
                }
                if is_at_rest(&core, &members) {
                    return Ok(());
                }
            }
        }
    }

    fn wait_for_rest(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.may_wait()?;
        loop {
            if !self.core().wait_quiet(deadline) {
                return Err(WaitError::TimedOut);
            }
            self.members().wait_idle(deadline)?;
            if is_at_rest(self.core(), self.members()) {
                return Ok(());
            }
        }
    }
}

fn is_at_rest(core: &Core<Members>, members: &Members) -> bool {
    core.is_quiet_while(|| members.are_at_rest())
}

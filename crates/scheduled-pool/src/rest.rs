//! Waiting for rest: nothing that is due is left to end, and nothing is in flight in the pool.
//!
//! Not for: what is due later. A schedule whose time has not come holds no wait for rest up.
//!
//! # Why no task is overlooked
//! A due schedule goes from the heap to the pool, and a task of the pool may schedule another, due at
//! once. So neither is looked at alone: the last look finds, under the timer's lock, every schedule
//! pending and all pools at rest. What is at rest schedules nothing; and what is pending was not due
//! then, by a clock that is read afterwards.

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
    /// Step 12: waits until nothing that is due is left to end. `false` if the deadline passed first.
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

    /// Whether nothing that is due is left to end, and `at_rest` says so at the same instant. It is
    /// asked under the lock.
    pub fn is_quiet_while(&self, at_rest: impl FnOnce() -> bool) -> bool {
        let state = self.state.lock();
        let next_due = state.next_due_if_all_are_pending();
        let next_due = next_due.filter(|_| at_rest());
        drop(state);
        // "A due time that comes during the look": by a later clock than the look's.
        next_due.is_some_and(|due| due > self.now())
    }
}

/// Waiting for rest.
impl<P: Base> ScheduledPool<P> {
    /// Waits until there is an instant at which the pool is idle and nothing that is due is left to
    /// end: no schedule is late, waits for room, or runs, and nothing else is in flight in the pool.
    ///
    /// What is due later is not waited for, nor a series between two runs: for these,
    /// [`wait_released`](Self::wait_released) after a release. The scheduled pool stays open, so that
    /// may be over on return.
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

    /// Waits as [`wait_idle`](Self::wait_idle) does, at most for so long by the pool's clock.
    ///
    /// # Errors
    /// Those, and [`TimedOut`](WaitError::TimedOut).
    pub fn wait_idle_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), WaitError> {
        self.wait_for_rest(timeout.into().deadline(&*self.core().clock))
    }

    /// As [`wait_idle`](Self::wait_idle), as a future, under any runtime: of an instant after its first
    /// poll. It keeps nothing open, and dropping it leaves nothing behind.
    ///
    /// # Errors
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

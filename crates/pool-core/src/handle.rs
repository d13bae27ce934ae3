//! The handle of a spawned task.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sync_shim::{Clock, Parker};

use crate::cell::{Bell, Joinable, Joined};
use crate::error::JoinError;
use crate::run::{Env, Outcome};
use crate::wait::{JOIN_SPIN, spin_until};

/// What a handle needs of its pool.
pub(crate) trait Home: Send + Sync {
    fn env(&self) -> &Env;
    fn clock(&self) -> &dyn Clock;
    /// Whether the caller is a worker of the pool.
    fn is_own_worker(&self) -> bool;
    /// Whether the workers stayed in another process.
    fn is_forked(&self) -> bool;
    /// Runs what may itself submit, one level deeper in this thread's nesting.
    fn nested(&self, run: &mut dyn FnMut() -> Option<Outcome>) -> Option<Outcome>;
    /// Counts a task that a joiner ran in place.
    fn count_in_place(&self, outcome: Outcome);
}

/// Waits for a spawned task, takes its value, or cancels it.
///
/// It is a thread's handle and a [`Future`] at once, on any runtime. Dropping it detaches: the
/// task runs all the same and its value is dropped; a panic of that drop ends there.
///
/// By the time a join returns, the pool's room and figures show the task's end.
///
/// # On a worker of the same pool
/// Joining a task that has not started runs it in place, so a task may wait for those it has
/// spawned without holding a worker idle. No other task is ever run inside a join. If the task
/// runs elsewhere the join blocks.
#[must_use = "dropping a handle detaches its task; `submit` is cheaper if nobody waits"]
pub struct JoinHandle<R> {
    cell: Arc<dyn Joinable<R>>,
    home: Arc<dyn Home>,
}

impl<R: Send + 'static> JoinHandle<R> {
    pub(crate) fn new(cell: Arc<dyn Joinable<R>>, home: Arc<dyn Home>) -> Self {
        Self { cell, home }
    }

    /// Blocks until the task has ended.
    ///
    /// # Errors
    /// Why there is no value: the task panicked, was cancelled, or was released unrun.
    pub fn join(self) -> Result<R, JoinError> {
        self.wait(None)
            .unwrap_or_else(|_| unreachable!("a wait without a limit has an outcome"))
    }

    /// Blocks until the task has ended, at most for so long by the pool's clock.
    ///
    /// # Errors
    /// The handle again, if the time was up; the task goes on.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<R, JoinError>, Self> {
        let deadline = self.home.clock().after(timeout);
        self.wait(deadline)
    }

    /// Blocks until the task has ended, at most until then by the pool's clock.
    ///
    /// # Errors
    /// The handle again, if the time was up; the task goes on.
    pub fn join_deadline(self, deadline: Instant) -> Result<Result<R, JoinError>, Self> {
        self.wait(Some(deadline))
    }

    /// Takes the value if the task has ended. Never blocks.
    ///
    /// # Errors
    /// The handle again, if it has not.
    pub fn try_join(self) -> Result<Result<R, JoinError>, Self> {
        if self.home.is_forked() {
            return Ok(Err(JoinError::Forked));
        }
        self.cell.take_or_wait(Bell::Nobody).ok_or(self)
    }

    /// Whether the task has ended. One load.
    pub fn is_finished(&self) -> bool {
        self.cell.is_ended()
    }

    /// Takes the task back if it has not started: `true` if so. O(1).
    ///
    /// What it captured is dropped at once, on this thread, and the handle ends with
    /// [`JoinError::Cancelled`]. Its place in the queue is given up when a worker comes to it.
    /// A task that runs is not interrupted.
    pub fn cancel(&self) -> bool {
        !self.home.is_forked() && self.cell.cancel()
    }

    fn wait(self, deadline: Option<Instant>) -> Result<Joined<R>, Self> {
        // Before the cell's lock, which a fork may have left held.
        if self.home.is_forked() {
            return Ok(Err(JoinError::Forked));
        }
        if !self.cell.is_ended() {
            if self.home.is_own_worker() {
                self.run_in_place();
            }
            spin_until(JOIN_SPIN, || self.cell.is_ended());
        }
        let parker = Parker::of_thread();
        loop {
            if let Some(value) = self.cell.take_or_wait(Bell::Thread(parker.clone())) {
                return Ok(value);
            }
            match deadline {
                None => parker.park(),
                Some(when) => {
                    if !self.home.clock().park_until(&parker, when) {
                        return self.try_join();
                    }
                }
            }
        }
    }

    fn run_in_place(&self) {
        let env = self.home.env();
        let ran = self.home.nested(&mut || self.cell.run_in_place(env));
        if let Some(outcome) = ran {
            self.home.count_in_place(outcome);
            self.cell.resolve();
        }
    }
}

impl<R: Send + 'static> Future for JoinHandle<R> {
    type Output = Result<R, JoinError>;

    /// Ready once the task has ended; polled again after that, it is ready with
    /// [`JoinError::Taken`].
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.home.is_forked() {
            return Poll::Ready(Err(JoinError::Forked));
        }
        let bell = Bell::Future(context.waker().clone());
        match self.cell.take_or_wait(bell) {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        }
    }
}

impl<R> Drop for JoinHandle<R> {
    fn drop(&mut self) {
        if self.home.is_forked() {
            // The lock may be held by a thread that is not there, and what it protects be half
            // changed: it is neither taken nor dropped.
            std::mem::forget(Arc::clone(&self.cell));
        } else {
            self.cell.detach();
        }
    }
}

impl<R> fmt::Debug for JoinHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("pool", &self.home.env().name)
            .field("finished", &self.cell.is_ended())
            .finish()
    }
}

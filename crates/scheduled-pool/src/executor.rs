//! The executor of due tasks: the part of a pool that the timer needs. Models run the timer over a
//! simplified executor.

use std::sync::Arc;

use pool_core::internals::{Entered, Queued, ScheduledTask};

use crate::base::Members;

/// Executes due tasks: a pool, or a model's simplified pool.
pub trait Executor: Send + Sync + Sized + 'static {
    /// A task's place in the wait queue for room. Dropping it withdraws the task, if it is still
    /// queued.
    type Ticket: QueueTicket;

    /// Offers a due task. Never waits for room and runs no user code.
    fn offer(&self, task: Arc<dyn ScheduledTask>) -> Offer<Self::Ticket>;
}

/// A task's place in the wait queue of an [`Executor`].
pub trait QueueTicket: Send + 'static {
    /// Returns whether a release of the executor has removed the task, so that it never runs.
    fn is_returned(&self) -> bool;
}

/// Outcome of [`Executor::offer`].
#[derive(Debug)]
pub enum Offer<T> {
    /// The executor will run the task.
    Accepted,
    /// The task waits for room.
    Queued(T),
    /// The executor is released. The releasing thread ends the schedules (step 10).
    Released,
    /// There is no worker and none could be started. The timer offers the task again later.
    NoThread,
}

impl Executor for Members {
    type Ticket = Queued;

    fn offer(&self, task: Arc<dyn ScheduledTask>) -> Offer<Queued> {
        match self.choose().enter(task) {
            Entered::Accepted => Offer::Accepted,
            Entered::Waiting(ticket) => Offer::Queued(ticket),
            Entered::Released => Offer::Released,
            Entered::NoThread(_) => Offer::NoThread,
        }
    }
}

impl QueueTicket for Queued {
    fn is_returned(&self) -> bool {
        Self::is_returned(self)
    }
}

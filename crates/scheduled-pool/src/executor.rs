//! The executor of due tasks: what the timer needs of a pool, and nothing else, so that a model can
//! run the timer over a simple twin of one.

use std::sync::Arc;

use pool_core::internals::{Entered, Queued, ScheduledTask};

use crate::base::Members;

/// Executes due tasks: a pool, or a model's twin of one.
pub trait Executor: Send + Sync + Sized + 'static {
    /// A task's place in the wait queue for room. Dropping it withdraws the task, if it is still
    /// queued.
    type Ticket: QueueTicket;

    /// Offers a due task. Does not wait for room, and runs no user code.
    fn offer(&self, task: Arc<dyn ScheduledTask>) -> Offer<Self::Ticket>;
}

/// Stands for a task in the wait queue of an [`Executor`].
pub trait QueueTicket: Send + 'static {
    /// Whether a release of the executor has taken the task out, so that it will not be run.
    fn is_returned(&self) -> bool;
}

/// What became of an offered task.
#[derive(Debug)]
pub enum Offer<T> {
    /// It will be run.
    Accepted,
    /// It waits for room.
    Queued(T),
    /// The executor is released. The section that released it ends the schedules.
    Released,
    /// There is no worker, and none could be started. The timer offers it again later.
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

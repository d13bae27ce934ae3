//! Where due tasks go.
//!
//! The timer knows of a pool only what stands here, so that a model can put a simple twin in the
//! pool's place.

use std::sync::Arc;

use pool_core::internals::{Entered, PoolHandle, Queued, ScheduledTask};

/// Takes due tasks.
pub trait Sink: Send + Sync + Sized + 'static {
    /// A task's place in the wait queue for room. Dropping it takes the task out, if it still
    /// stands there.
    type Ticket: Place;

    /// Takes a due task. Does not wait for room, and calls no user code.
    fn offer(&self, task: Arc<dyn ScheduledTask>) -> Offer<Self::Ticket>;
}

/// What a [`Sink`] gives to a task that waits.
pub trait Place: Send + 'static {
    /// Whether the sink was released and the task will not be run.
    fn is_returned(&self) -> bool;
}

/// What became of an offered task.
#[derive(Debug)]
pub enum Offer<T> {
    /// It will be run.
    Accepted,
    /// It waits for room.
    Waiting(T),
    /// The sink is released. Whoever released it ends the schedules.
    Released,
    /// There is no worker, and none could be started: to be offered again later.
    NoThread,
}

impl Sink for PoolHandle {
    type Ticket = Queued;

    fn offer(&self, task: Arc<dyn ScheduledTask>) -> Offer<Queued> {
        match self.enter(task) {
            Entered::Accepted => Offer::Accepted,
            Entered::Waiting(ticket) => Offer::Waiting(ticket),
            Entered::Released => Offer::Released,
            Entered::NoThread(_) => Offer::NoThread,
        }
    }
}

impl Place for Queued {
    fn is_returned(&self) -> bool {
        Self::is_returned(self)
    }
}

//! The task in which a worker runs pieces of a sub-queue.

use std::mem;
use std::sync::{Arc, Weak};

use pool_core::internals::{Outcome, TaskContext, TaskResult, Work, execute_unseen};
use sync_shim::foreign::drop_quietly;

/// A drain task that has not run. Dropping it unrun, by a refusal or a `release_now`, uncounts it.
pub(crate) struct DrainTask {
    /// Weak, so that a drain task that waits for room or a worker does not keep the function of a mapping that is over.
    queue: Weak<dyn Drain>,
    lane: usize,
}

impl DrainTask {
    pub(super) fn new(queue: &Arc<dyn Drain>, lane: usize) -> Self {
        let queue = Arc::downgrade(queue);
        Self { queue, lane }
    }

    pub(super) fn drain(mut self, context: &TaskContext) {
        if let Some(queue) = self.take() {
            queue.drain(&queue, self.lane, context);
            // USER CODE: the last reference drops a mapping's function and its captures.
            drop_quietly(queue);
        }
    }

    /// The queue, unless it is gone or was taken before.
    fn take(&mut self) -> Option<Arc<dyn Drain>> {
        mem::replace(&mut self.queue, Weak::<Gone>::new()).upgrade()
    }
}

// `Work::type_name` returns `None`, so a full pool does not discard drain tasks.
impl Work for DrainTask {
    fn run(self, context: &TaskContext) -> TaskResult {
        execute_unseen(|| self.drain(context))
    }

    fn release(self) -> TaskResult {
        drop(self);
        TaskResult::without_handle(Outcome::Released)
    }
}

impl Drop for DrainTask {
    fn drop(&mut self) {
        if let Some(queue) = self.take() {
            queue.abandon(self.lane);
            // USER CODE: as in `drain`.
            drop_quietly(queue);
        }
    }
}

/// A sub-queue, as its drain tasks see it.
pub(super) trait Drain: Send + Sync {
    /// Body of a drain task. `this` is the queue.
    fn drain(&self, this: &Arc<dyn Drain>, lane: usize, context: &TaskContext);
    /// Called for a drain task that will not run.
    fn abandon(&self, lane: usize);
}

/// No queue.
enum Gone {}

impl Drain for Gone {
    fn drain(&self, _: &Arc<dyn Drain>, _: usize, _: &TaskContext) {
        match *self {}
    }

    fn abandon(&self, _: usize) {
        match *self {}
    }
}

//! The task in which a worker does pieces of a sub-queue.

use std::sync::Arc;

use pool_core::internals::{Outcome, TaskContext, TaskResult, Work, execute_unseen};
use sync_shim::foreign::drop_quietly;

/// A drain task before it has run. Dropped unrun, by a refusal or a `release_now`, it is uncounted.
pub(crate) struct DrainTask {
    queue: Option<Arc<dyn Drain>>,
    lane: usize,
}

impl DrainTask {
    pub(super) fn new(queue: Arc<dyn Drain>, lane: usize) -> Self {
        let queue = Some(queue);
        Self { queue, lane }
    }

    pub(super) fn drain(mut self, context: &TaskContext) {
        if let Some(queue) = self.queue.take() {
            queue.drain(&queue, self.lane, context);
            drop_quietly(queue); // Perhaps with a mapping's function and what it captured.
        }
    }
}

// Without a name: a full pool does not discard it.
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
        if let Some(queue) = self.queue.take() {
            queue.abandon(self.lane);
            drop_quietly(queue);
        }
    }
}

/// The drain tasks' side of a sub-queue.
pub(super) trait Drain: Send + Sync {
    /// The body of a drain task of that lane, on a worker with that context. `this` is the queue.
    fn drain(&self, this: &Arc<dyn Drain>, lane: usize, context: &TaskContext);
    /// A drain task will not run.
    fn abandon(&self, lane: usize);
}

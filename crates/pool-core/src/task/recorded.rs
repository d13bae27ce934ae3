//! A task with a record and without a cell: of a scope or a scheduler, which store the closure and the value themselves.

use std::borrow::Cow;
use std::sync::Arc;

use crate::foreign::{Payload, drop_quietly};
use crate::sister::pool_handle::PoolHandle;
use crate::task::current::Frame;
use crate::task::hook::TaskOutcome;
use crate::task::options::TaskOptions;
use crate::task::record::{HasRecord, TaskRecord};
use crate::task::run::TaskContext;

/// The record of such a task, and its view by the code that runs in it.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Recorded(TaskRecord);

impl Recorded {
    /// Creates the record of a task that may run at once.
    pub fn new(options: TaskOptions, pool: &PoolHandle) -> Arc<Self> {
        Arc::new(Self(TaskRecord::new(options, &pool.0.context)))
    }

    /// Creates the record of a task that runs later, whose waiting time hooks do not see. Returns `None` if it has no options
    /// and the pool needs no record.
    pub fn of_scheduled(options: Option<TaskOptions>, pool: &PoolHandle) -> Option<Arc<Self>> {
        let context = &pool.0.context;
        let options = options.or_else(|| context.records_all().then(TaskOptions::default))?;
        let record = TaskRecord::new(options, context);
        Some(Arc::new(Self(record.without_time())))
    }

    /// Returns the name that the task was given.
    pub fn given_name(&self) -> Option<Cow<'static, str>> {
        self.0.name.clone()
    }

    /// Returns whether one of its tokens is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Drops `body` if the task must not be started any more, calls the hooks, and returns the reason.
    ///
    /// # Errors
    /// Returns the body if it may start.
    pub fn drop_unrun<B>(
        &self,
        type_name: &'static str,
        context: &TaskContext,
        body: B,
    ) -> Result<TaskOutcome, B> {
        let Some(why) = self.0.forbids_start(context) else {
            return Err(body);
        };
        // USER CODE: the drop of the captures of a task that does not run.
        drop_quietly(body);
        context.not_run(self.0.label(type_name), why);
        Ok(why)
    }

    /// Runs the task.
    ///
    /// # Errors
    /// Returns the payload of a panic.
    pub fn execute<T>(
        self: &Arc<Self>,
        type_name: &'static str,
        context: &TaskContext,
        task: impl FnOnce() -> T,
    ) -> Result<T, Payload> {
        let frame = Frame::of(self);
        let ran = self.0.execute(type_name, context, task);
        drop(frame);
        ran
    }
}

impl HasRecord for Recorded {
    fn record(&self) -> &TaskRecord {
        &self.0
    }
}

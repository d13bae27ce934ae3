//! A submitted task with a record.

use std::sync::Arc;

use sync_shim::Mutex;

use crate::foreign::drop_quietly;
use crate::task::current::Frame;
use crate::task::record::{HasRecord, TaskRecord};
use crate::task::run::{Outcome, TaskContext, TaskResult};

/// A job and its record in one allocation.
pub(crate) struct RecordedJob<J> {
    pub(crate) record: TaskRecord,
    /// The job, until it is run or released.
    job: Mutex<Option<J>>,
}

impl<J: Send + 'static> RecordedJob<J> {
    pub(crate) fn new(job: J, record: TaskRecord) -> Arc<Self> {
        let job = Mutex::new(Some(job));
        Arc::new(Self { record, job })
    }

    /// Takes the job, for the one owner of the queue entry.
    pub(crate) fn take(&self) -> J {
        let job = self.job.lock().take();
        job.expect("the entry is run, released or taken back once")
    }

    /// Inspects the job while it is in the queue.
    pub(crate) fn with_job<T>(&self, look: impl FnOnce(&J) -> Option<T>) -> Option<T> {
        self.job.lock().as_ref().and_then(look)
    }

    /// Runs the job unless its record forbids it. `call` may unwind.
    pub(crate) fn run(
        self: Arc<Self>,
        type_name: &'static str,
        context: &TaskContext,
        call: impl FnOnce(J),
    ) -> TaskResult {
        let job = self.take();
        if let Some(why) = self.record.forbids_start(context) {
            drop_quietly(job);
            context.not_run(self.record.label(type_name), why);
            return TaskResult::without_handle(Outcome::not_run(why));
        }
        let frame = Frame::of(&self);
        let ran = self.record.execute(type_name, context, || call(job));
        drop(frame);
        TaskResult::without_handle(Outcome::of(ran))
    }
}

impl<J: Send + 'static> HasRecord for RecordedJob<J> {
    fn record(&self) -> &TaskRecord {
        &self.record
    }
}

//! Kinds of jobs: one queue holds jobs with different payload types, told apart by a name.

use crate::engine::policy::JobPolicy;

/// A kind of job, whose payloads have this type. Handles of [`DurableQueue::kind`] push its jobs, and
/// [`WorkerBuilder::on`](crate::WorkerBuilder::on) or `on_async` adds its handler.
///
/// With the feature `json`, `Json<T>` is a kind if `T` is one, so types with serde need no [`Payload`] of their own.
///
/// ```
/// use durable_queue::{Claimed, DurableQueue, Json, Kind, ShutDown, When, Worker};
/// use durable_queue_sqlite::SqliteStore;
/// # use std::io;
/// # fn send(_: &str) -> io::Result<()> { Ok(()) }
/// # fn write(_: u32) -> io::Result<()> { Ok(()) }
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendMail { to: String }
/// impl Kind for SendMail { const NAME: &'static str = "send-mail"; }
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Report { year: u32 }
/// impl Kind for Report { const NAME: &'static str = "report"; }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let jobs: DurableQueue<Vec<u8>, _> = DurableQueue::new("jobs", SqliteStore::open(":memory:")?);
/// let mails = jobs.kind::<Json<SendMail>>();
/// mails.push(Json(SendMail { to: "ant@hill".to_owned() }), When::NOW)?;
/// jobs.kind::<Json<Report>>().push(Json(Report { year: 2026 }), When::NOW)?;
///
/// let worker = Worker::builder(jobs)
///     .concurrency(8)
///     .on(|mail: &Claimed<Json<SendMail>>| send(&mail.0.to))
///     .on(|report: &Claimed<Json<Report>>| write(report.0.year))
///     .start()?;
/// # while worker.queue().store_stats()?.jobs > 0 { std::thread::yield_now(); }
/// # assert_eq!(worker.shutdown(std::time::Duration::MAX), ShutDown::Finished);
/// # Ok(())
/// # }
/// ```
///
/// [`DurableQueue::kind`]: crate::DurableQueue::kind
/// [`Payload`]: crate::Payload
pub trait Kind {
    /// Name of the kind, which is stored with each job. A worker finds the handler by it, so it must not change while
    /// there are jobs.
    const NAME: &'static str;
}

#[cfg(feature = "json")]
impl<T: Kind> Kind for crate::store::payload::Json<T> {
    const NAME: &'static str = T::NAME;
}

/// Options of a kind at a worker: see [`WorkerBuilder::on_with`](crate::WorkerBuilder::on_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "it has no effect until a worker gets it"]
pub struct KindOptions {
    pub(crate) concurrency: Option<usize>,
    pub(crate) policy: JobPolicy,
}

impl KindOptions {
    /// Creates options with none set.
    pub const fn new() -> Self {
        Self {
            concurrency: None,
            policy: JobPolicy::new(),
        }
    }

    /// Sets the number of jobs of the kind that the worker runs at a time. Default: the worker's concurrency. Minimum:
    /// one.
    ///
    /// Further jobs of the kind stay in the store, for any process, and cost this one nothing: a claim names the kinds that
    /// have room. Only those wait here that are expected to start within
    /// [`SHORTEST_PATIENCE`](crate::internals::SHORTEST_PATIENCE), and never while all of the kind's handlers are busy. With a
    /// fixed [`batch`](crate::WorkerBuilder::batch), the rest of the batch waits.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = Some(jobs.max(1));
        self
    }

    /// Sets the policy of the kind's jobs that are taken in this process. A job's own policy goes first.
    pub fn policy(mut self, policy: JobPolicy) -> Self {
        self.policy = policy;
        self
    }
}

/// State of a [`WorkerBuilder`](crate::WorkerBuilder) before the first [`on`](crate::WorkerBuilder::on): one handler
/// takes all jobs.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NoKinds;

//! Waits for the results of done jobs.

use std::error;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use sync_shim::{Clock, Deadline, Parker, Timeout};

use crate::api::queue::DurableQueue;
use crate::engine::control::Control;
use crate::engine::shared::Shared;
use crate::error::StoreError;
use crate::store::job::JobId;
use crate::store::payload::Payload;
use crate::store::{DoneJob, Fate, Result, Store};
use crate::threads::call::CallFuture;

/// Delay between the first two looks of a wait for a result. It doubles up to [`LONGEST_LOOK`].
pub const FIRST_LOOK: Duration = Duration::from_millis(10);
/// Maximum delay between two looks of a wait for a result.
pub const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Error of a wait for the [result](DurableQueue::result) of a job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ResultError {
    /// The store failed. The wait may be repeated.
    Store(StoreError),
    /// The job is a dead letter with this error.
    Dead(String),
    /// The job does not exist: it was cancelled, is done and was not kept or no longer is, or was never pushed.
    Gone,
    /// The job was not done before the deadline.
    TimedOut,
}

impl fmt::Display for ResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Dead(error) => write!(f, "the job has failed: {error}"),
            Self::Gone => f.write_str("the job does not exist, or is not kept"),
            Self::TimedOut => f.write_str("the job was not done before the deadline"),
        }
    }
}

impl error::Error for ResultError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            _ => None,
        }
    }
}

impl<T: Payload, S: Store> DurableQueue<T, S> {
    /// Returns whether a job is open, done and [kept](crate::Builder::keep_done), a dead letter, or gone.
    ///
    /// # Errors
    /// The store's error.
    pub fn fate(&self, id: JobId) -> Result<Fate> {
        let Shared { store, name, .. } = &**self.shared();
        store.fate(name, id)
    }

    /// Async version of [`fate`](Self::fate): see [`CallFuture`].
    ///
    /// # Errors
    /// The store's error. [`ErrorKind::NoThread`](crate::ErrorKind::NoThread) if no thread could be started for the call.
    pub fn fate_async(&self, id: JobId) -> CallFuture<Result<Fate>> {
        self.call(move |Shared { store, name, .. }| store.fate(name, id))
    }

    /// Blocks until a job is done, in any process, and returns it with its result. Only for queues that
    /// [keep](crate::Builder::keep_done) done jobs long enough.
    ///
    /// # Cost
    /// One read of the store by the job's id per look: at once, after [`FIRST_LOOK`], and then after twice the
    /// previous delay, up to [`LONGEST_LOOK`]. So the result arrives late by at most the time waited so far, and by at
    /// most a second.
    ///
    /// ```
    /// use std::time::Duration;
    /// use durable_queue::{Claimed, DurableQueue, SetResultError, When, Worker};
    /// use durable_queue_sqlite::SqliteStore;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = DurableQueue::builder("sums", SqliteStore::open(":memory:")?)
    ///     .keep_done(Duration::from_secs(600))
    ///     .build()?;
    /// let worker = Worker::builder(queue.clone()).start(|job: &Claimed<String>| {
    ///     let sum: u32 = job.split('+').filter_map(|number| number.parse::<u32>().ok()).sum();
    ///     job.set_result(sum.to_string())
    /// })?;
    /// let id = queue.push("1+2".to_owned(), When::NOW)?;
    /// assert_eq!(queue.result(id)?.result.as_deref(), Some(&b"3"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`ResultError`].
    #[doc(alias = "await")]
    #[doc(alias = "join")]
    pub fn result(&self, id: JobId) -> Result<DoneJob, ResultError> {
        self.result_until(id, None)
    }

    /// Like [`result`](Self::result), but waits for at most `timeout`.
    ///
    /// # Errors
    /// Also [`ResultError::TimedOut`].
    pub fn result_timeout(
        &self,
        id: JobId,
        timeout: impl Into<Timeout>,
    ) -> Result<DoneJob, ResultError> {
        let deadline = timeout.into().deadline(&self.shared().control.clock);
        self.result_until(id, deadline)
    }

    fn result_until(&self, id: JobId, deadline: Option<Instant>) -> Result<DoneJob, ResultError> {
        let clock = &self.shared().control.clock;
        let mut looks = Looks::new();
        loop {
            if let Some(result) = settled(self.fate(id)) {
                return result;
            }
            let now = clock.now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(ResultError::TimedOut);
            }
            let next = looks.next(now);
            let next = deadline.map_or(next, |deadline| deadline.min(next));
            let parker = Parker::of_thread();
            while clock.now() < next {
                clock.park_until(&parker, next);
            }
        }
    }

    /// Async version of [`result`](Self::result): see [`CallFuture`]. Dropping it ends the wait.
    ///
    /// # Errors
    /// See [`ResultError`]. [`ErrorKind::NoThread`](crate::ErrorKind::NoThread) if no thread could be started for a call.
    pub fn result_async(&self, id: JobId) -> CallFuture<Result<DoneJob, ResultError>> {
        let shared = Arc::clone(self.shared());
        CallFuture::new(async move {
            let mut looks = Looks::new();
            loop {
                let fate = Arc::clone(&shared)
                    .call(move |Shared { store, name, .. }| store.fate(name, id));
                if let Some(result) = settled(fate.await) {
                    return result;
                }
                let next = looks.next(shared.control.clock.now());
                shared.control.sleep_async(next).await;
            }
        })
    }
}

/// `None` if the job is open.
fn settled(fate: Result<Fate>) -> Option<Result<DoneJob, ResultError>> {
    match fate {
        Ok(Fate::Open) => None,
        Ok(Fate::Done(job)) => Some(Ok(job)),
        Ok(Fate::Dead { error }) => Some(Err(ResultError::Dead(error))),
        Ok(Fate::Gone) => Some(Err(ResultError::Gone)),
        Err(error) => Some(Err(ResultError::Store(error))),
    }
}

/// Times of the looks of a wait.
struct Looks(Duration);

impl Looks {
    fn new() -> Self {
        Self(FIRST_LOOK)
    }

    fn next(&mut self, now: Instant) -> Instant {
        let delay = self.0;
        self.0 = (delay * 2).min(LONGEST_LOOK);
        now + delay
    }
}

impl Control {
    async fn sleep_async(&self, until: Instant) {
        let mut limit = Deadline::new(Some(until));
        poll_fn(|context| {
            if self.is_forked() {
                return Poll::Ready(()); // The next look tells.
            }
            limit.poll(&self.clock, context.waker())
        })
        .await;
    }
}

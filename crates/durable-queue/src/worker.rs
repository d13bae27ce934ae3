//! Workers: handlers on a pool, each of which takes a job, runs it, and settles it.

use std::error::Error;
use std::fmt;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pool_core::Pool;
use sync_shim::foreign::{discard, guarded};
use sync_shim::{Clock, Timeout};

use crate::calls::Wanted;
use crate::claimed::{Claimed, PANICKED};
use crate::command::Command;
use crate::error::{TakeError, with_causes};
use crate::payload::Payload;
use crate::queue::{DurableQueue, ShutDown};
use crate::shared::Shared;
use crate::store::Store;

/// Default maximum of jobs that a handler's thread claims at a time.
pub const MOST_JOBS: usize = 1_024;
/// Minimum time that a job waits behind a slow handler before it is released.
pub const SHORTEST_PATIENCE: Duration = Duration::from_millis(10);
/// Maximum total payload in bytes that a handler's thread claims at a time, if the number of jobs is not
/// fixed. A single payload may be larger.
const MOST_BYTES: usize = 1 << 20;

/// Runs a handler for each job of a queue, with limited concurrency, on the threads of a [`Pool`].
///
/// If the handler returns `Ok`, the job is acknowledged as by [`ack_later`](Claimed::ack_later). If it
/// returns an error or panics, the attempt has failed: the job is retried after the queue's back-off, or
/// buried with the error if no attempt is left. The same holds for a payload that cannot be
/// [decoded](Payload::decode). Leases are renewed while handlers run, up to
/// [`Builder::attempt_timeout`](crate::Builder::attempt_timeout).
///
/// [`concurrency`](WorkerBuilder::concurrency) limits the number of jobs that run at a time;
/// [`Builder::rate`](crate::Builder::rate) limits the number of jobs that start in a span of time.
///
/// Dropping the worker [closes](DurableQueue::close) the queue in this process, without waiting.
#[must_use = "dropping the worker closes its queue"]
pub struct Worker<T: Payload, S: Store> {
    queue: DurableQueue<T, S>,
    pool: Pool,
}

/// Configures a [`Worker`]. Created by [`Worker::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct WorkerBuilder<T: Payload, S: Store> {
    queue: DurableQueue<T, S>,
    concurrency: usize,
    batch: Option<NonZeroUsize>,
}

impl<T: Payload, S: Store> Worker<T, S> {
    /// Returns a builder of a worker for `queue`.
    pub fn builder(queue: DurableQueue<T, S>) -> WorkerBuilder<T, S> {
        WorkerBuilder {
            queue,
            concurrency: 1,
            batch: None,
        }
    }

    /// Returns the queue.
    pub fn queue(&self) -> &DurableQueue<T, S> {
        &self.queue
    }

    /// Stops taking jobs, and blocks until the running handlers have ended and all jobs are settled, for at
    /// most `timeout`. Handlers that run longer continue; their jobs are handed out again when the leases
    /// expire.
    pub fn shutdown(&self, timeout: impl Into<Timeout>) -> ShutDown {
        let shared = self.queue.shared();
        let deadline = timeout.into().deadline(&shared.control.clock);
        let ended = shared.shutdown(deadline);
        if ended == ShutDown::Forked {
            return ended;
        }
        self.pool.release();
        let is_over = match deadline {
            None => self.pool.wait_released(),
            Some(deadline) => self.pool.wait_released_timeout(deadline),
        };
        if is_over.is_ok() {
            ended
        } else {
            ShutDown::TimedOut
        }
    }
}

impl<T: Payload, S: Store> WorkerBuilder<T, S> {
    /// Sets the number of handlers that run at a time. Default: one. Minimum: one.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers.max(1);
        self
    }

    /// Sets the number of jobs that a handler's thread claims at a time.
    ///
    /// By default it adapts to the handlers: as many jobs as a handler finishes in about two turns of the
    /// store, at most [`MOST_JOBS`]; and one if handlers take longer than that, or the queue has a
    /// [`rate`](crate::Builder::rate). So short jobs share commits, and long jobs stay available to other
    /// processes. Idle handlers of this process take jobs from each other's batches. A job that waits in a
    /// batch behind a slow handler is released after some milliseconds ([`SHORTEST_PATIENCE`], or four turns
    /// if that is longer).
    ///
    /// With a fixed number, waiting jobs are not released: slow handlers keep the rest of their batch from
    /// other processes. The jobs of a batch are acknowledged together when the next one is claimed.
    pub fn batch(mut self, jobs: NonZeroUsize) -> Self {
        self.batch = Some(jobs);
        self
    }

    /// Starts the handlers. A handler's error may be any error type, a boxed error, an `anyhow` error, or a
    /// text. A dead letter has its text and those of its [sources](Error::source), separated by `: `.
    ///
    /// # Errors
    /// The pool's error, if no threads can be started.
    pub fn start<F, E>(self, handler: F) -> Result<Worker<T, S>, StartError>
    where
        F: Fn(&Claimed<T>) -> Result<(), E> + Send + Sync + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self {
            queue,
            concurrency,
            batch,
        } = self;
        let pool = Pool::builder()
            .capacity(concurrency)
            .clock(queue.shared().control.clock.clone())
            .name(queue.name())
            .build()
            .map_err(|error| StartError(with_causes(&error)))?;
        let handler = Arc::new(handler);
        for _ in 0..concurrency {
            // A handle of their own would keep the queue open after the worker's drop.
            let shared = Arc::clone(queue.shared());
            let handler = Arc::clone(&handler);
            let loops = move || work(&shared, &*handler, Pace::new(batch));
            if let Err(error) = pool.submit(loops) {
                queue.close();
                pool.release();
                return Err(StartError(with_causes(&error)));
            }
        }
        Ok(Worker { queue, pool })
    }
}

/// Body of a handler's thread, until the queue ends.
fn work<T, S, E>(
    shared: &Arc<Shared<S>>,
    handler: &impl Fn(&Claimed<T>) -> Result<(), E>,
    mut pace: Pace,
) where
    T: Payload,
    S: Store,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let control = &shared.control;
    let is_limited = shared.config.rate.is_some();
    let mut done = Vec::new();
    loop {
        let spare = control.next_spare(&mut done);
        let job = spare.map_or_else(
            || {
                let wanted = pace.wanted(control.round_trip(), is_limited);
                let mut one = shared.wait(mem::take(&mut done), wanted, None)?;
                Ok::<_, TakeError>(one.pop().expect("at least one job"))
            },
            Ok,
        );
        let Ok(job) = job else { return };
        let size = job.lease.payload.len();
        let begun = control.clock.now();
        let job = Claimed::of(job, control, &shared.policy);
        done.extend(job.and_then(|job| handle(handler, job)));
        pace.learn(control.clock.now().saturating_duration_since(begun), size);
    }
}

/// Number of jobs that a handler's thread claims at a time.
struct Pace {
    fixed: Option<NonZeroUsize>,
    last: usize,
    /// Recent duration of a job, in nanoseconds.
    took: u64,
    /// Recent maximum size of a payload, in bytes.
    size: usize,
}

impl Pace {
    fn new(fixed: Option<NonZeroUsize>) -> Self {
        Self {
            fixed,
            last: 0,
            took: 0,
            size: 0,
        }
    }

    /// A slow job counts by an eighth, so that it takes several to make the batches short. A large payload
    /// counts at once.
    fn learn(&mut self, took: Duration, size: usize) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / 8);
        self.took = match self.took {
            0 => took,
            before => before - before / 8 + took / 8,
        };
        self.size = size.max(self.size - self.size / 8);
    }

    fn wanted(&mut self, round_trip: Duration, is_limited: bool) -> Wanted {
        if let Some(most) = self.fixed {
            return Wanted::Spare {
                most: most.get(),
                patience: None,
            };
        }
        let span = u64::try_from(2 * round_trip.as_nanos()).unwrap_or(u64::MAX);
        let in_time = usize::try_from(span / self.took.max(1)).unwrap_or(usize::MAX);
        let most = in_time
            .min(MOST_BYTES / self.size.max(1))
            .min(self.last * 2)
            .clamp(1, if is_limited { 1 } else { MOST_JOBS });
        self.last = most;
        Wanted::Spare {
            most,
            patience: Some((round_trip * 4).max(SHORTEST_PATIENCE)),
        }
    }
}

/// An acknowledgement, if the job is done.
fn handle<T, E: Into<Box<dyn Error + Send + Sync>>>(
    handler: &impl Fn(&Claimed<T>) -> Result<(), E>,
    job: Claimed<T>,
) -> Option<Command> {
    // USER CODE: the handler, and the conversion, `Display` and `source` of its error. A panic fails the attempt.
    let ended = guarded(|| handler(&job).map_err(|error| with_causes(&*error.into())));
    match ended {
        Ok(Ok(())) => return Some(job.later_ack()),
        Ok(Err(error)) => job.fail(&error),
        Err(payload) => {
            discard(payload); // The panic hook has shown it.
            job.fail(PANICKED);
        }
    }
    None
}

impl<T: Payload, S: Store> Drop for Worker<T, S> {
    fn drop(&mut self) {
        self.queue.close();
        self.pool.release();
    }
}

impl<T: Payload, S: Store> fmt::Debug for Worker<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// Error of [`WorkerBuilder::start`]: the threads for the handlers could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handlers cannot be started: {}", self.0)
    }
}

impl Error for StartError {}

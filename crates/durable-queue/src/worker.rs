//! Handlers on a pool: each takes a job, runs, and settles it.

use std::error::Error;
use std::fmt;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pool_core::Pool;
use sync_shim::Clock;
use sync_shim::foreign::{discard, guarded};

use crate::claimed::{Claimed, PANICKED};
use crate::error::with_causes;
use crate::payload::Payload;
use crate::queue::{DurableQueue, ShutDown};
use crate::store::Store;
use crate::take::Acks;

/// Runs a handler for each job of a queue, so many at a time, on the threads of a [`Pool`].
///
/// A handler that returns `Ok` has done its job, which is acknowledged as by
/// [`ack_later`](Claimed::ack_later). One that returns an error, or panics, has failed: the job comes again after the queue's back-off, or
/// is buried with the error if no attempt is left. The same holds for a payload that cannot be [decoded](Payload::decode).
/// Leases are renewed meanwhile, up to [`Builder::attempt_timeout`](crate::Builder::attempt_timeout).
///
/// How many jobs run at a time, [`concurrency`](WorkerBuilder::concurrency) says; how many start in a span of
/// time, [`Builder::rate`](crate::Builder::rate) of the queue.
///
/// Dropped, it [closes](DurableQueue::close) the queue in this process and waits for nothing.
#[must_use = "dropped, it closes its queue"]
pub struct Worker<T: Payload, S: Store> {
    queue: DurableQueue<T, S>,
    pool: Pool,
}

/// Says how a [`Worker`] is to be. [`Worker::builder`] begins one.
#[derive(Debug)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct WorkerBuilder<T: Payload, S: Store> {
    queue: DurableQueue<T, S>,
    concurrency: usize,
    batch: NonZeroUsize,
}

impl<T: Payload, S: Store> Worker<T, S> {
    /// Begins to say how the jobs of `queue` are to be worked off.
    pub fn builder(queue: DurableQueue<T, S>) -> WorkerBuilder<T, S> {
        WorkerBuilder {
            queue,
            concurrency: 1,
            batch: NonZeroUsize::MIN,
        }
    }

    /// The queue.
    pub fn queue(&self) -> &DurableQueue<T, S> {
        &self.queue
    }

    /// Takes nothing more, and blocks until the handlers that run have ended and all is settled, for
    /// at most this long. What runs after that runs on; its job comes again when the lease ends.
    pub fn shutdown(&self, timeout: Duration) -> ShutDown {
        let deadline = self.queue.shared().control.clock.after(timeout);
        let ended = self.queue.shutdown(timeout);
        if ended == ShutDown::Forked {
            return ended;
        }
        self.pool.release();
        let is_over = match deadline {
            None => self.pool.wait_released(),
            Some(deadline) => self.pool.wait_released_deadline(deadline),
        };
        if is_over.is_ok() {
            ended
        } else {
            ShutDown::TimedOut
        }
    }
}

impl<T: Payload, S: Store> WorkerBuilder<T, S> {
    /// How many handlers run at a time: one if not said, at least one.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers.max(1);
        self
    }

    /// How many jobs a handler's thread may take at a time: one if not said. The jobs of a batch are
    /// handled one after the other, and are acknowledged together when the next batch is taken. For
    /// handlers that take less time than a commit; those that take long would keep the rest of their
    /// batch from others.
    pub fn batch(mut self, jobs: NonZeroUsize) -> Self {
        self.batch = jobs;
        self
    }

    /// Starts the handlers. The error of a handler may be a type of its own, a boxed error, one of `anyhow`, or a
    /// text. A dead letter has its text and those of its [sources](Error::source), with `: ` between them.
    ///
    /// # Errors
    /// What the pool says, if there are no threads for them.
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
            let loops = move || {
                let mut done = Vec::new();
                while let Ok(jobs) = shared.take(mem::take(&mut done), Acks::Later, batch, None) {
                    let mut jobs = jobs.into_iter();
                    done.extend(jobs.next().and_then(|job| handle(&*handler, job)));
                    for job in jobs {
                        // The rest of a batch: a shutdown may have come meanwhile. Dropped, it is
                        // given back.
                        if shared.control.is_open() {
                            done.extend(handle(&*handler, job));
                        }
                    }
                }
            };
            if let Err(error) = pool.submit(loops) {
                queue.close();
                pool.release();
                return Err(StartError(with_causes(&error)));
            }
        }
        Ok(Worker { queue, pool })
    }
}

/// The job comes back if it is done.
fn handle<T: Payload, E: Into<Box<dyn Error + Send + Sync>>>(
    handler: &impl Fn(&Claimed<T>) -> Result<(), E>,
    job: Claimed<T>,
) -> Option<Claimed<T>> {
    // The conversion of the error, its `Display` and its `source` are the user's too.
    let ended = guarded(|| handler(&job).map_err(|error| with_causes(&*error.into())));
    match ended {
        Ok(Ok(())) => return Some(job),
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

/// There are no threads for the handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handlers cannot be started: {}", self.0)
    }
}

impl Error for StartError {}

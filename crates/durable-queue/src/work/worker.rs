//! Workers: handlers on a pool, each of which takes a job, runs it, and settles it.
//!
//! Async handlers start here too. `run.rs` runs them.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use async_pool::{AsyncPool, JoinError, JoinHandle};
use pool_core::Pool;
use sync_shim::Mutex;
use sync_shim::foreign::guarded;
use sync_shim::{Clock, Timeout};

use crate::api::kind::NoKinds;
use crate::api::queue::{DurableQueue, ShutDown};
use crate::engine::claimed::Claimed;
use crate::engine::command::Command;
use crate::engine::command::Ready;
#[cfg(doc)]
use crate::engine::config::{MOST_JOBS, SHORTEST_PATIENCE};
use crate::engine::lanes::LanesId;
use crate::engine::shared::Shared;
use crate::engine::signals::Events;
use crate::error::{TakeError, with_causes};
use crate::store::Store;
use crate::store::payload::Payload;
use crate::work::handler::{Attempt, Job, Pooled, Terms};
use crate::work::pace::Pace;
use crate::work::run::{Dispatch, Limits, Run};

/// Runs a handler for each job of a queue, with limited concurrency: on the threads of a [`Pool`], or as tasks of an
/// `AsyncPool`.
///
/// If the handler returns `Ok`, the job is acknowledged as by [`ack_later`](Claimed::ack_later). If it
/// returns an error or panics, the attempt has failed: the job is retried after its back-off, or
/// buried with the error if no attempt is left. The same holds for a payload that cannot be
/// [decoded](Payload::decode). Leases are renewed while handlers run, up to
/// [`Builder::attempt_timeout`](crate::Builder::attempt_timeout) or the [time limit](crate::JobPolicy::time_limit). If
/// a job is cancelled while its handler runs, the handler can [learn](Claimed::is_cancelled) of it, and the job ends if
/// the attempt fails.
///
/// [`concurrency`](WorkerBuilder::concurrency) limits the number of jobs that run at a time;
/// [`Builder::rate`](crate::Builder::rate) limits the number of jobs that start in a span of time.
///
/// Dropping the worker [closes](DurableQueue::close) the queue in this process, without waiting.
#[must_use = "dropping the worker closes its queue"]
pub struct Worker<T: Payload, S: Store> {
    queue: DurableQueue<T, S>,
    handlers: Handlers,
}

/// Where the handlers run.
enum Handlers {
    Threads(Pool),
    /// The task of the run, until a shutdown waits for it.
    Tasks(Mutex<Option<JoinHandle<()>>>),
}

/// Configures a [`Worker`]. Created by [`Worker::builder`].
///
/// `C` is the context of async handlers, `K` the handlers of kinds.
#[derive(Debug)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct WorkerBuilder<T: Payload, S: Store, C = NoContext, K = NoKinds> {
    pub(crate) queue: DurableQueue<T, S>,
    pub(crate) concurrency: usize,
    pub(crate) batch: Option<NonZeroUsize>,
    grace: Option<Duration>,
    ends_on: Events,
    pub(crate) context: C,
    pub(crate) kinds: K,
}

/// Handlers get the job only.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NoContext;

/// Async handlers get a clone of this value: see [`WorkerBuilder::context`].
#[derive(Clone, Debug)]
pub struct Context<C>(pub(crate) C);

impl<T: Payload, S: Store> Worker<T, S> {
    /// Returns a builder of a worker for `queue`.
    pub fn builder(queue: DurableQueue<T, S>) -> WorkerBuilder<T, S> {
        WorkerBuilder {
            queue,
            concurrency: 1,
            batch: None,
            grace: None,
            ends_on: Events::NONE,
            context: NoContext,
            kinds: NoKinds,
        }
    }

    /// Returns the queue.
    pub fn queue(&self) -> &DurableQueue<T, S> {
        &self.queue
    }

    /// Stops taking jobs, and blocks until the running handlers have ended and all jobs are settled, for at
    /// most `timeout`. Handlers that run longer continue; their jobs are handed out again when the leases
    /// expire. Async handlers are dropped at the end of the `grace`. Not for calls in a handler, which would wait for
    /// itself.
    pub fn shutdown(&self, timeout: impl Into<Timeout>) -> ShutDown {
        let shared = self.queue.shared();
        let deadline = timeout.into().deadline(&shared.control.clock);
        let ended = shared.shutdown(deadline);
        if ended == ShutDown::Forked {
            return ended;
        }
        if self.handlers.end(deadline) {
            ended
        } else {
            ShutDown::TimedOut
        }
    }
}

impl Handlers {
    /// Waits for all handlers. Returns false if `deadline` passes first.
    fn end(&self, deadline: Option<Instant>) -> bool {
        match self {
            Self::Threads(pool) => {
                pool.release();
                let waited = match deadline {
                    None => pool.wait_released(),
                    Some(deadline) => pool.wait_released_timeout(deadline),
                };
                waited.is_ok()
            }
            Self::Tasks(run) => {
                let Some(handle) = run.lock().take() else {
                    return true;
                };
                let Some(deadline) = deadline else {
                    return !matches!(handle.join(), Err(JoinError::WouldDeadlock));
                };
                let Err(handle) = handle.join_timeout(deadline) else {
                    return true;
                };
                *run.lock() = Some(handle);
                false
            }
        }
    }
}

impl<T: Payload, S: Store, C, K> WorkerBuilder<T, S, C, K> {
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
    /// processes. The next jobs are claimed when those that end in one turn are left, so that handlers do not wait for
    /// claims. Idle handlers of this process take jobs from each other's batches. A job that waits in a
    /// batch behind a slow handler is released after some milliseconds ([`SHORTEST_PATIENCE`], or four turns
    /// if that is longer).
    ///
    /// With a fixed number, waiting jobs are not released: slow handlers keep the rest of their batch from
    /// other processes. The jobs of a batch are acknowledged together when the next one is claimed.
    ///
    /// Async handlers share one claim, of at least as many jobs as handlers have room: by default as many as they
    /// end in about two turns, or the fixed number. The rest waits for room.
    pub fn batch(mut self, jobs: NonZeroUsize) -> Self {
        self.batch = Some(jobs);
        self
    }

    /// Sets how long running async handlers are waited for after the queue was closed. Then they are dropped, and their
    /// jobs are released. Default: no limit.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Drops the future of an async handler when its job's lease is [lost](Claimed::lost), or has expired after the
    /// [attempt's timeout](crate::Builder::attempt_timeout). By default the handler goes on, and its result is ignored if
    /// another process has the job.
    pub fn cancel_on_lost_lease(mut self) -> Self {
        self.ends_on = self.ends_on.and(Events::LOST);
        self
    }

    /// Drops the future of an async handler when a [cancel](crate::DurableQueue::cancel) of its job is
    /// [requested](Claimed::cancelled). The job then ends. By default the handler goes on, and can ask whether it should
    /// stop.
    pub fn cancel_on_request(mut self) -> Self {
        self.ends_on = self.ends_on.and(Events::CANCELLED);
        self
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            handlers: self.concurrency,
            batch: self.batch,
            grace: self.grace,
        }
    }

    /// What a single handler runs.
    fn lanes(&self) -> LanesId {
        let queue = &self.queue;
        queue.shared().control.lanes_of(queue.marks.kind)
    }

    pub(crate) fn terms(&self) -> Terms {
        let ends_on = self.ends_on;
        Terms { ends_on }
    }

    /// Replaces the context and the kinds, and returns the previous ones.
    pub(crate) fn with<D, L>(self, context: D, kinds: L) -> (WorkerBuilder<T, S, D, L>, C, K) {
        let Self {
            queue,
            concurrency,
            batch,
            grace,
            ends_on,
            context: before,
            kinds: kinds_before,
        } = self;
        let builder = WorkerBuilder {
            queue,
            concurrency,
            batch,
            grace,
            ends_on,
            context,
            kinds,
        };
        (builder, before, kinds_before)
    }
}

impl<T: Payload, S: Store> WorkerBuilder<T, S> {
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
        let lanes = self.lanes();
        // A handle of its own would keep the queue open after the worker's drop.
        let shared = Arc::clone(self.queue.shared());
        self.start_threads(lanes, move |job| {
            let job = Claimed::of(job, &shared.control, &shared.policy)?;
            handle(&handler, job)
        })
    }
}

impl<T: Payload, S: Store, C, K> WorkerBuilder<T, S, C, K> {
    /// Runs jobs by `run` on the threads of a pool.
    pub(crate) fn start_threads(
        self,
        lanes: LanesId,
        run: impl Fn(Ready) -> Option<Command> + Send + Sync + 'static,
    ) -> Result<Worker<T, S>, StartError> {
        let Self {
            queue,
            concurrency,
            batch,
            ..
        } = self;
        let pool = Pool::builder()
            .capacity(concurrency)
            .clock(queue.shared().control.clock.clone())
            .name(queue.name())
            .build()
            .map_err(|error| StartError(with_causes(&error)))?;
        let run = Arc::new(run);
        for _ in 0..concurrency {
            let (shared, run) = (Arc::clone(queue.shared()), Arc::clone(&run));
            let work = move || work(&shared, lanes, concurrency, Pace::new(batch), &*run);
            if let Err(error) = pool.submit(work) {
                queue.close();
                pool.release();
                return Err(StartError(with_causes(&error)));
            }
        }
        let handlers = Handlers::Threads(pool);
        Ok(Worker { queue, handlers })
    }

    /// Runs `start`'s attempts in `pool`.
    pub(crate) fn start_tasks<A>(
        self,
        pool: &AsyncPool,
        lanes: LanesId,
        attempt: impl Fn(usize, Ready) -> A + Send + 'static,
    ) -> Result<Worker<T, S>, StartError>
    where
        A: Future<Output = Option<Command>> + Send + Unpin + 'static,
    {
        let limits = self.limits();
        let queue = self.queue;
        let shared = Arc::clone(queue.shared());
        let handlers = pool.clone();
        let mut start = move |lane, job| {
            let pooled = Pooled::new(&shared.control, attempt(lane, job));
            let spawned = handlers.spawn_async(pooled);
            async move {
                // A refusal closes the queue, and releases the job. Otherwise the job would be claimed and refused again.
                let handle = spawned.await.map_err(drop).ok()?;
                handle.cancel_on_drop().await.ok()?.take()
            }
        };
        let mut dispatch = Dispatch::new(queue.shared(), limits, lanes);
        let run = poll_fn(move |context| dispatch.poll(context, &mut start).map(drop));
        match pool.try_spawn(run) {
            Ok(run) => Ok(Worker {
                queue,
                handlers: Handlers::Tasks(Mutex::new(Some(run))),
            }),
            Err(refused) => Err(StartError(with_causes(&refused.map(drop)))),
        }
    }
}

impl<T: Payload, S: Store> WorkerBuilder<T, S> {
    /// Sets a value of which each call of an async handler gets a clone, as its second argument: the application's state.
    /// The clone belongs to the attempt: a panic in it fails the attempt.
    pub fn context<C: Clone>(self, context: C) -> WorkerBuilder<T, S, Context<C>> {
        self.with(Context(context), NoKinds).0
    }

    /// Returns a future that runs async handlers, on any runtime and without a pool. See [`Run`].
    ///
    /// ```
    /// use durable_queue::{DurableQueue, Job, When, Worker};
    /// use durable_queue_sqlite::SqliteStore;
    ///
    /// # #[derive(Clone)] struct App;
    /// # impl App { async fn send(&self, _: &str) -> std::io::Result<()> { Ok(()) } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mails: DurableQueue<String, _> = DurableQueue::new("mails", SqliteStore::open(":memory:")?);
    /// mails.push("a welcome".to_owned(), When::NOW)?;
    /// let run = Worker::builder(mails)
    ///     .concurrency(200)
    ///     .grace(std::time::Duration::from_secs(20))
    ///     .context(App)
    ///     .run_async(|mail, app| async move { app.send(&mail).await });
    /// let terminated = async { /* `tokio::signal::ctrl_c().await` */ };
    /// run.until(terminated).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_async<F, Fut, E>(self, handler: F) -> Run<T, S, F, Fut>
    where
        F: Fn(Job<T>) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let (limits, terms) = (self.limits(), self.terms());
        Run::new(self.queue, limits, terms, handler)
    }

    /// Starts async handlers in `pool`. Each is a task of the pool, and one more task takes the jobs.
    ///
    /// The pool needs room for [`concurrency`](Self::concurrency) tasks, plus one. If it has less, jobs wait in this process
    /// for room. If it refuses a task, because it was released or limits its waiting callers, the queue is closed in this
    /// process.
    ///
    /// A [shutdown](Worker::shutdown) of the worker waits for the handlers, which are dropped after the
    /// [`grace`](Self::grace). It blocks, so do not call it in a task of the pool.
    ///
    /// ```
    /// # use async_pool::AsyncPool;
    /// # use durable_queue::{DurableQueue, ShutDown, Store, When, Worker};
    /// # async fn send(_: &str) -> std::io::Result<()> { Ok(()) }
    /// # fn work<S: Store>(mails: DurableQueue<String, S>) -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = AsyncPool::builder().capacity(201).build()?;
    /// let worker = Worker::builder(mails)
    ///     .concurrency(200)
    ///     .start_async(&pool, |mail| async move { send(&mail).await })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the pool is full or released.
    pub fn start_async<F, Fut, E>(
        self,
        pool: &AsyncPool,
        handler: F,
    ) -> Result<Worker<T, S>, StartError>
    where
        F: Fn(Job<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let (terms, lanes) = (self.terms(), self.lanes());
        let (shared, handler) = (Arc::clone(self.queue.shared()), Arc::new(handler));
        let attempt = move |_, job| Attempt::new(&shared, &handler, terms, job);
        self.start_tasks(pool, lanes, attempt)
    }
}

/// The same with a context.
impl<T: Payload, S: Store, C: Clone> WorkerBuilder<T, S, Context<C>> {
    /// Like [`WorkerBuilder::run_async`] without a context.
    pub fn run_async<F, Fut, E>(self, handler: F) -> Run<T, S, impl Fn(Job<T>) -> Fut, Fut>
    where
        F: Fn(Job<T>, C) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let (builder, Context(context), _) = self.with(NoContext, NoKinds);
        // USER CODE: the clone of the context. A part of the handler.
        builder.run_async(move |job| handler(job, context.clone()))
    }

    /// Like [`WorkerBuilder::start_async`] without a context.
    ///
    /// # Errors
    /// If the pool is full or released.
    pub fn start_async<F, Fut, E>(
        self,
        pool: &AsyncPool,
        handler: F,
    ) -> Result<Worker<T, S>, StartError>
    where
        C: Send + Sync + 'static,
        F: Fn(Job<T>, C) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let (builder, Context(context), _) = self.with(NoContext, NoKinds);
        // USER CODE: the clone of the context. A part of the handler.
        builder.start_async(pool, move |job| handler(job, context.clone()))
    }
}

/// Body of a handler's thread, until the queue ends. `run` returns an acknowledgement, if the job is done.
fn work<S: Store>(
    shared: &Arc<Shared<S>>,
    lanes: LanesId,
    handlers: usize,
    mut pace: Pace,
    run: &impl Fn(Ready) -> Option<Command>,
) {
    let control = &shared.control;
    let mut done = Vec::new();
    loop {
        let refill = pace.refill(handlers, shared);
        let spare = control.next_spare(lanes, &mut done, refill);
        let job = spare.map_or_else(
            || {
                let wanted = pace.wanted(1, shared);
                let mut one = shared.wait(mem::take(&mut done), lanes, wanted, None)?;
                Ok::<_, TakeError>(one.pop().expect("at least one job"))
            },
            Ok,
        );
        let Ok(job) = job else { return };
        let (lane, size) = (job.lane, job.lease.payload.len());
        let begun = control.clock.now();
        done.extend(run(job));
        let took = control.clock.now().saturating_duration_since(begun);
        control.ended(lanes, lane, took);
        pace.learn(took, size);
    }
}

/// An acknowledgement, if the job is done.
pub(crate) fn handle<T, E: Into<Box<dyn Error + Send + Sync>>>(
    handler: &impl Fn(&Claimed<T>) -> Result<(), E>,
    mut job: Claimed<T>,
) -> Option<Command> {
    // USER CODE: the handler, and the conversion, `Display` and `source` of its error. A panic fails the attempt.
    let run = |job: &_| guarded(|| handler(job).map_err(|error| with_causes(&*error.into())));
    let ended = job.observe(run);
    job.into_guard().end(ended)
}

impl<T: Payload, S: Store> Drop for Worker<T, S> {
    fn drop(&mut self) {
        self.queue.close();
        match &self.handlers {
            Handlers::Threads(pool) => _ = pool.release(),
            // It ends with the queue.
            Handlers::Tasks(_) => {}
        }
    }
}

impl<T: Payload, S: Store> std::panic::UnwindSafe for Worker<T, S> {}
impl<T: Payload, S: Store> std::panic::RefUnwindSafe for Worker<T, S> {}

impl<T: Payload, S: Store> fmt::Debug for Worker<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// Error of [`WorkerBuilder::start`] and `start_async`: no threads could be started, or the `AsyncPool` is full or released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handlers cannot be started: {}", self.0)
    }
}

impl Error for StartError {}

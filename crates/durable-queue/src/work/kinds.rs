//! Workers whose handlers take jobs of one kind each.
//!
//! A handler is made a boxed function when it is added, so the loops of threads and futures are compiled once.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use async_pool::AsyncPool;

use crate::api::kind::{Kind, KindOptions, NoKinds};
use crate::api::queue::{DurableQueue, ShutDown};
use crate::engine::claimed::Claimed;
use crate::engine::command::{Command, Ready};
use crate::engine::config::Policy;
use crate::engine::control::Control;
use crate::engine::lanes::{Lanes, LanesId};
use crate::engine::policy::JobPolicy;
use crate::engine::shared::Shared;
use crate::error::TakeError;
use crate::store::Store;
use crate::store::payload::Payload;
use crate::work::handler::{Attempt, Job};
use crate::work::run::{Dispatch, close_on};
use crate::work::worker::{Context, NoContext};
use crate::work::worker::{StartError, Worker, WorkerBuilder, handle};

/// A builder's state after [`on`](WorkerBuilder::on): the blocking handlers.
#[derive(Debug)]
pub struct BlockingKinds(Table<BlockingHandler>);

/// A builder's state after `on_async`: the async handlers.
#[derive(Debug)]
pub struct AsyncKinds(Table<AsyncHandler>);

/// Runs a job. Returns an acknowledgement, if it is done.
type BlockingHandler =
    Box<dyn Fn(Ready, &Arc<Control>, &Arc<Policy>) -> Option<Command> + Send + Sync>;
/// Makes the attempt of a job.
type AsyncHandler = Box<dyn Fn(Ready) -> BoxedAttempt + Send + Sync>;
type BoxedAttempt = Pin<Box<dyn Future<Output = Option<Command>> + Send>>;

/// The handlers, in the order of their lanes.
struct Table<H>(Vec<Entry<H>>);

struct Entry<H> {
    name: &'static str,
    options: KindOptions,
    handler: H,
}

impl<H> Table<H> {
    /// Replaces the kind's handler.
    fn put<K: Kind>(&mut self, options: KindOptions, handler: H) {
        let name = K::NAME;
        self.0.retain(|entry| entry.name != name);
        self.0.push(Entry {
            name,
            options,
            handler,
        });
    }

    /// Adds the lanes, and tells the pump the policies.
    fn open<S>(&self, concurrency: usize, shared: &Shared<S>) -> LanesId {
        let policy = &shared.policy;
        for Entry { name, options, .. } in &self.0 {
            let mut kinds = policy.kinds.lock();
            if options.policy == JobPolicy::new() {
                kinds.remove(name);
            } else {
                kinds.insert(name, Arc::new(options.policy));
            }
        }
        let lanes = self.0.iter().map(|entry| {
            let limit = entry.options.concurrency.unwrap_or(concurrency);
            (entry.name, limit.min(concurrency))
        });
        shared.control.add_lanes(Lanes::new(lanes))
    }
}

impl<H> fmt::Debug for Table<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|entry| (entry.name, entry.options));
        f.debug_map().entries(names).finish()
    }
}

impl From<NoKinds> for BlockingKinds {
    fn from(_: NoKinds) -> Self {
        Self(Table(Vec::new()))
    }
}

impl From<NoKinds> for AsyncKinds {
    fn from(_: NoKinds) -> Self {
        Self(Table(Vec::new()))
    }
}

impl<T: Payload, S: Store, C, B: Into<BlockingKinds>> WorkerBuilder<T, S, C, B> {
    /// Adds the handler of a kind's jobs. It replaces the kind's previous one. [`Kind`] has an example.
    ///
    /// A job whose kind has no handler here, or which has no kind, is not claimed: it waits for a process that has one, and
    /// costs this one nothing. [`StoreStats::due_of_kinds`](crate::store::StoreStats::due_of_kinds) shows kinds that
    /// nobody takes. A payload that the kind's type cannot decode is given back:
    /// [`Builder::unreadable_for`](crate::Builder::unreadable_for).
    ///
    /// The queue's own type is not used: `Vec<u8>` fits all kinds.
    pub fn on<K, E>(
        self,
        handler: impl Fn(&Claimed<K>) -> Result<(), E> + Send + Sync + 'static,
    ) -> WorkerBuilder<T, S, C, BlockingKinds>
    where
        K: Kind + Payload,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.on_with(KindOptions::new(), handler)
    }

    /// Like [`on`](Self::on), with options of the kind.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use durable_queue::{Claimed, DurableQueue, JobPolicy, Kind, KindOptions, StartError, Store, Worker};
    /// # use durable_queue::{DecodeError, EncodeError, Payload};
    /// # struct Report(Vec<u8>);
    /// # impl Payload for Report {
    /// #     fn encode(&self) -> Result<std::borrow::Cow<'_, [u8]>, EncodeError> { self.0.encode() }
    /// #     fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> { Ok(Self(bytes)) }
    /// # }
    /// # impl Kind for Report { const NAME: &'static str = "report"; }
    /// # fn write(_: &Report) -> std::io::Result<()> { Ok(()) }
    /// # fn start<S: Store>(jobs: DurableQueue<Vec<u8>, S>) -> Result<Worker<Vec<u8>, S>, StartError> {
    /// let ten_minutes = Duration::from_secs(600);
    /// let reports = KindOptions::new()
    ///     .concurrency(2)
    ///     .policy(JobPolicy::new().max_attempts(5).time_limit(ten_minutes));
    /// Worker::builder(jobs)
    ///     .concurrency(16)
    ///     .on_with(reports, |report: &Claimed<Report>| write(report))
    ///     .start()
    /// # }
    /// ```
    pub fn on_with<K, E>(
        self,
        options: KindOptions,
        handler: impl Fn(&Claimed<K>) -> Result<(), E> + Send + Sync + 'static,
    ) -> WorkerBuilder<T, S, C, BlockingKinds>
    where
        K: Kind + Payload,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let erased = move |job: Ready, control: &_, policy: &_| {
            let job = Claimed::of(job, control, policy)?;
            handle(&handler, job)
        };
        let (builder, context, kinds) = self.with((), ());
        let mut kinds: BlockingKinds = kinds.into();
        kinds.0.put::<K>(options, Box::new(erased));
        builder.with(context, kinds).0
    }
}

impl<T: Payload, S: Store, C> WorkerBuilder<T, S, C, BlockingKinds> {
    /// Starts the handlers on a pool's threads. All kinds share them.
    ///
    /// # Errors
    /// The pool's error, if no threads can be started.
    pub fn start(self) -> Result<Worker<T, S>, StartError> {
        let (builder, _, BlockingKinds(table)) = self.with((), ());
        let shared = Arc::clone(builder.queue.shared());
        let lanes = table.open(builder.concurrency, &shared);
        builder.start_threads(lanes, move |job| {
            (table.0[job.lane].handler)(job, &shared.control, &shared.policy)
        })
    }
}

impl<T: Payload, S: Store, C, B: Into<AsyncKinds>> WorkerBuilder<T, S, C, B> {
    fn on_attempt<K: Kind + Payload, F, Fut, E>(
        self,
        options: KindOptions,
        handler: F,
    ) -> WorkerBuilder<T, S, C, AsyncKinds>
    where
        F: Fn(Job<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let terms = self.terms();
        let (shared, handler) = (Arc::clone(self.queue.shared()), Arc::new(handler));
        let erased = move |job: Ready| -> BoxedAttempt {
            Box::pin(Attempt::<K, S, F, Fut>::new(&shared, &handler, terms, job))
        };
        let (builder, context, kinds) = self.with((), ());
        let mut kinds: AsyncKinds = kinds.into();
        kinds.0.put::<K>(options, Box::new(erased));
        builder.with(context, kinds).0
    }
}

impl<T: Payload, S: Store, B: Into<AsyncKinds>> WorkerBuilder<T, S, NoContext, B> {
    /// Adds the async handler of a kind's jobs. [`on`](Self::on) describes jobs without a handler.
    /// [`cancel_on_lost_lease`](Self::cancel_on_lost_lease) and [`cancel_on_request`](Self::cancel_on_request) apply to
    /// the handlers that are added after them.
    pub fn on_async<K, Fut, E>(
        self,
        handler: impl Fn(Job<K>) -> Fut + Send + Sync + 'static,
    ) -> WorkerBuilder<T, S, NoContext, AsyncKinds>
    where
        K: Kind + Payload,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        self.on_attempt(KindOptions::new(), handler)
    }

    /// Like [`on_async`](Self::on_async), with options of the kind.
    pub fn on_async_with<K, Fut, E>(
        self,
        options: KindOptions,
        handler: impl Fn(Job<K>) -> Fut + Send + Sync + 'static,
    ) -> WorkerBuilder<T, S, NoContext, AsyncKinds>
    where
        K: Kind + Payload,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        self.on_attempt(options, handler)
    }
}

/// The same with a context.
impl<T, S, C, B> WorkerBuilder<T, S, Context<C>, B>
where
    T: Payload,
    S: Store,
    C: Clone + Send + Sync + 'static,
    B: Into<AsyncKinds>,
{
    /// Like [`WorkerBuilder::on_async`] without a context.
    ///
    /// ```
    /// use durable_queue::{DurableQueue, Job, Json, Kind, KindOptions, When, Worker};
    /// use durable_queue_sqlite::SqliteStore;
    /// # use std::io;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct SendMail { to: String }
    /// impl Kind for SendMail { const NAME: &'static str = "send-mail"; }
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Report { year: u32 }
    /// impl Kind for Report { const NAME: &'static str = "report"; }
    ///
    /// #[derive(Clone)]
    /// struct App;
    /// async fn send_mail(mail: Job<Json<SendMail>>, app: App) -> io::Result<()> { Ok(()) }
    /// async fn report(report: Job<Json<Report>>, app: App) -> io::Result<()> { Ok(()) }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let jobs: DurableQueue<Vec<u8>, _> = DurableQueue::new("jobs", SqliteStore::open(":memory:")?);
    /// jobs.kind().push_async(Json(Report { year: 2026 }), When::NOW).await?;
    /// let run = Worker::builder(jobs)
    ///     .concurrency(200)
    ///     .context(App)
    ///     .on_async(send_mail)
    ///     .on_async_with(KindOptions::new().concurrency(4), report)
    ///     .run_async();
    /// let terminated = async { /* `tokio::signal::ctrl_c().await` */ };
    /// run.until(terminated).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_async<K, Fut, E>(
        self,
        handler: impl Fn(Job<K>, C) -> Fut + Send + Sync + 'static,
    ) -> WorkerBuilder<T, S, Context<C>, AsyncKinds>
    where
        K: Kind + Payload,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        self.on_async_with(KindOptions::new(), handler)
    }

    /// Like [`on_async`](Self::on_async), with options of the kind.
    pub fn on_async_with<K, Fut, E>(
        self,
        options: KindOptions,
        handler: impl Fn(Job<K>, C) -> Fut + Send + Sync + 'static,
    ) -> WorkerBuilder<T, S, Context<C>, AsyncKinds>
    where
        K: Kind + Payload,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let context = self.context.0.clone();
        // USER CODE: the clone of the context. A part of the handler.
        self.on_attempt(options, move |job| handler(job, context.clone()))
    }
}

impl<T: Payload, S: Store, C> WorkerBuilder<T, S, C, AsyncKinds> {
    /// Returns a future that runs the handlers, on any runtime and without a pool. It is like a
    /// [`Run`](crate::Run).
    pub fn run_async(self) -> KindRun<T, S> {
        let (builder, _, AsyncKinds(table)) = self.with((), ());
        let limits = builder.limits();
        let queue = builder.queue;
        let shared = queue.shared();
        let lanes = table.open(limits.handlers, shared);
        KindRun {
            dispatch: Dispatch::new(shared, limits, lanes),
            table,
            queue,
        }
    }

    /// Starts the handlers in `pool`, as [`WorkerBuilder::start_async`] of a single handler does.
    ///
    /// # Errors
    /// If the pool is full or released.
    pub fn start_async(self, pool: &AsyncPool) -> Result<Worker<T, S>, StartError> {
        let (builder, _, AsyncKinds(table)) = self.with((), ());
        let lanes = table.open(builder.concurrency, builder.queue.shared());
        builder.start_tasks(pool, lanes, move |lane, job| (table.0[lane].handler)(job))
    }
}

/// A worker with handlers of kinds as a future. Returned by `run_async`. Everything said about [`Run`](crate::Run)
/// applies.
#[must_use = "a future does nothing until it is polled"]
pub struct KindRun<T: Payload, S: Store> {
    dispatch: Dispatch<S, BoxedAttempt>,
    table: Table<AsyncHandler>,
    queue: DurableQueue<T, S>,
}

impl<T: Payload, S: Store> KindRun<T, S> {
    /// Returns the queue.
    pub fn queue(&self) -> &DurableQueue<T, S> {
        &self.queue
    }

    /// Closes the queue when `signal` completes. The output is that of the run.
    ///
    /// # Errors
    /// [`TakeError::NoThread`] and [`TakeError::Forked`].
    ///
    /// # Panics
    /// Those of `signal`.
    pub async fn until(mut self, signal: impl Future) -> Result<ShutDown, TakeError> {
        let mut signal = pin!(signal);
        let mut is_signalled = false;
        poll_fn(|context| {
            let control = &self.queue.shared().control;
            close_on(signal.as_mut(), &mut is_signalled, control, context);
            Pin::new(&mut self).poll(context)
        })
        .await
    }
}

/// The output of a [`Run`](crate::Run).
impl<T: Payload, S: Store> Future for KindRun<T, S> {
    type Output = Result<ShutDown, TakeError>;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let Self {
            dispatch, table, ..
        } = self.get_mut();
        dispatch.poll(context, |lane, job| (table.0[lane].handler)(job))
    }
}

impl<T: Payload, S: Store> fmt::Debug for KindRun<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindRun")
            .field("queue", &self.queue)
            .field("kinds", &self.table)
            .finish_non_exhaustive()
    }
}

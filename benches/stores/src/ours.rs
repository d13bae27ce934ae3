//! `DurableQueue` on each of our stores.

use std::num::NonZeroUsize;
use std::thread::sleep;
use std::time::{Duration, Instant};

use async_pool::AsyncPool;
use durable_queue::store::{COUNT_LIMIT, Claim, Store};
use durable_queue::{DurableQueue, HORIZON, LEASE, ShutDown, Token, When, Worker, WorkerBuilder};
use stores::{Fault, Handler, Job, LOOK_EVERY, Outcome, Queue, Workers};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const NAME: &str = "bench";
/// Jobs that a worker takes at a time.
const BATCH: NonZeroUsize = NonZeroUsize::new(100).expect("it is not zero");
/// Handlers that run at a time.
const HANDLERS: usize = 100;
/// One job at a time, and as many as a thread takes at most by default.
pub const ONE: Option<NonZeroUsize> = Some(NonZeroUsize::MIN);
pub const MANY: Option<NonZeroUsize> = NonZeroUsize::new(durable_queue::internals::MOST_JOBS);
const SHUTDOWN: Duration = Duration::from_secs(5);

type Open<S> = dyn Fn() -> Outcome<S> + Send + Sync;

/// How jobs start.
#[derive(Clone, Copy)]
pub enum Way {
    /// Claimed ahead, and confirmed by the store when due.
    Confirmed,
    /// Claimed ahead, and reported to the store when started.
    Unconfirmed,
    /// Not claimed before they are due.
    AtTheTime,
    /// Confirmed, with a worker that chooses the size of its claims itself.
    Adaptive,
    /// With a hundred threads for handlers, each of which takes so many jobs at a time, or chooses.
    Threads(Option<NonZeroUsize>),
    /// With a hundred async handlers, in a task of tokio.
    Run(Option<NonZeroUsize>),
    /// With a hundred async handlers, each a task of an `AsyncPool`.
    Pool(Option<NonZeroUsize>),
}

/// Pushes use `queue`; each worker opens the store again.
pub struct Ours<S: Store> {
    open: Box<Open<S>>,
    way: Way,
    store: S,
    queue: DurableQueue<String, S>,
}

impl<S: Store + Clone> Ours<S> {
    pub fn new(way: Way, open: impl Fn() -> Outcome<S> + Send + Sync + 'static) -> Outcome<Self> {
        let store = open()?;
        Ok(Self {
            queue: DurableQueue::new(NAME, store.clone()),
            store,
            way,
            open: Box::new(open),
        })
    }
}

impl<S: Store + Clone> Queue for Ours<S> {
    fn push(&self, jobs: &[Job]) -> Outcome {
        if let [job] = jobs {
            return match self.queue.push(job.text.clone(), job.when()) {
                Ok(_) => Ok(()),
                Err(failed) => Err(failed.error.into()),
            };
        }
        let values = jobs
            .iter()
            .map(|job| (job.text.clone(), When::from(job.when())));
        match self.queue.push_batch(values.collect()) {
            Ok(_) => Ok(()),
            Err(failed) => Err(failed.error.into()),
        }
    }

    fn push_each_async(&self, tasks: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                let queue = self.queue.clone();
                runtime.spawn(async move {
                    let mut pushed = 0;
                    while Instant::now() < until {
                        let job = Job::after(delay);
                        let push = queue.push_async(job.text.clone(), job.when());
                        push.await.map_err(|failed| failed.error)?;
                        pushed += 1;
                    }
                    Ok::<u32, Fault>(pushed)
                })
            })
            .collect();
        runtime.block_on(async {
            let mut pushed = 0;
            for task in tasks {
                pushed += task.await??;
            }
            Ok(pushed)
        })
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        let mut team = Team(Vec::new());
        for _ in 0..workers {
            let queue = DurableQueue::builder(NAME, (self.open)()?);
            let queue: DurableQueue<String, S> = match self.way {
                Way::Confirmed | Way::Adaptive | Way::Threads(_) | Way::Run(_) | Way::Pool(_) => {
                    queue
                }
                Way::Unconfirmed => queue.confirm(false),
                Way::AtTheTime => queue.horizon(Duration::ZERO),
            }
            .build()?;
            let handler = handler.clone();
            let builder = Worker::builder(queue);
            let builder = match self.way {
                Way::Adaptive => builder,
                Way::Threads(batch) | Way::Run(batch) | Way::Pool(batch) => {
                    let builder = builder.concurrency(HANDLERS);
                    match batch {
                        Some(batch) => builder.batch(batch),
                        None => builder,
                    }
                }
                Way::Confirmed | Way::Unconfirmed | Way::AtTheTime => builder.batch(BATCH),
            };
            let worker = match self.way {
                Way::Run(_) => {
                    team.0.push(Box::new(Task::new(builder, handler)?));
                    continue;
                }
                Way::Pool(_) => {
                    let pool = AsyncPool::builder().build()?;
                    builder.start_async(&pool, move |job| {
                        let handler = handler.clone();
                        async move {
                            handler(&job);
                            Ok::<(), Fault>(())
                        }
                    })?
                }
                _ => builder.start(move |job| {
                    handler(job);
                    Ok::<(), Fault>(())
                })?,
            };
            team.0.push(Box::new(worker));
        }
        Ok(Box::new(team))
    }

    fn left(&self) -> Outcome<usize> {
        let begin = Instant::now();
        loop {
            let jobs = self.store.stats(NAME)?.jobs;
            if jobs < COUNT_LIMIT {
                return Ok(usize::try_from(jobs)?);
            }
            if begin.elapsed() > SHUTDOWN {
                return Err("the store counts no further".into());
            }
            sleep(LOOK_EVERY);
        }
    }

    fn look(&self) -> Outcome {
        let most = u32::try_from(BATCH.get())?;
        let claim = Claim {
            token: Token::random(),
            kinds: None,
            max: most,
            start: most,
            ahead: most,
            horizon: HORIZON,
            lease: LEASE,
            urgent_first: true,
        };
        let claimed = self.store.turn(NAME, &[], Some(claim))?.claimed;
        let leases = claimed.ok_or("it claims")?.leases;
        if leases.is_empty() {
            Ok(())
        } else {
            Err(Fault::from("a claim returned a job although none was due"))
        }
    }
}

/// A worker that can be told to end, and waited for.
trait Member {
    fn close(&mut self);
    fn end(&mut self) -> bool;
}

impl<S: Store> Member for Worker<String, S> {
    fn close(&mut self) {
        self.queue().close();
    }

    fn end(&mut self) -> bool {
        self.shutdown(SHUTDOWN) == ShutDown::Finished
    }
}

/// A run in a task of tokio.
struct Task {
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    run: Option<JoinHandle<Option<ShutDown>>>,
}

impl Task {
    fn new<S: Store>(builder: WorkerBuilder<String, S>, handler: Handler) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
        let (stop, stopped) = oneshot::channel();
        let run = builder.grace(SHUTDOWN).run_async(move |job| {
            let handler = handler.clone();
            async move {
                handler(&job);
                Ok::<(), Fault>(())
            }
        });
        let run = runtime.spawn(async move { run.until(stopped).await.ok() });
        Ok(Self {
            runtime,
            stop: Some(stop),
            run: Some(run),
        })
    }
}

impl Member for Task {
    fn close(&mut self) {
        self.stop = None;
    }

    fn end(&mut self) -> bool {
        let run = self.run.take().expect("it ends once");
        matches!(self.runtime.block_on(run), Ok(Some(ShutDown::Finished)))
    }
}

struct Team(Vec<Box<dyn Member>>);

impl Workers for Team {}

impl Drop for Team {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            worker.close();
        }
        for worker in &mut self.0 {
            if !worker.end() {
                eprintln!("a worker did not end well");
            }
        }
    }
}

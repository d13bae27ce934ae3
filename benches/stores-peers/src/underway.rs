//! underway: a task has its own transaction, and its states are kept. A worker is notified of each
//! change, and polls every quarter of a second, because nothing announces when a delayed task is
//! due (by default it polls every minute).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jiff_01::{Span, ToSpan as _};
use sqlx_08::postgres::PgPoolOptions;
use sqlx_08::{PgPool, Postgres, Transaction};
use stores::{Handler, Job, Outcome, Workers};
use tokio::runtime::Runtime;
use underway::task::Result;
use underway::{Queue, Task, Worker};

use crate::runtime::{QUEUE, SESSIONS, Tasks, count, push_each, runtime};

const LEFT: &str = "SELECT count(*) FROM underway.task WHERE state <> 'succeeded'";

#[derive(Clone)]
struct Bench {
    handler: Handler,
    delay: Span,
}

impl Bench {
    fn new(handler: Handler) -> Self {
        Self {
            handler,
            delay: Span::new(),
        }
    }

    fn pushed(delay: Span) -> Self {
        Self {
            handler: Arc::new(|_: &str| ()),
            delay,
        }
    }
}

impl Task for Bench {
    type Input = String;
    type Output = ();

    async fn execute(&self, transaction: Transaction<'_, Postgres>, input: String) -> Result<()> {
        (self.handler)(&input);
        transaction.commit().await?;
        Ok(())
    }

    fn delay(&self) -> Span {
        self.delay
    }
}

pub struct Underway {
    runtime: Runtime,
    pool: PgPool,
    queue: Arc<Queue<Bench>>,
    /// Concurrent handlers of a worker.
    handlers: usize,
}

fn delay(job: &Job) -> Outcome<Span> {
    let delay = job.when().duration_since(SystemTime::now());
    let micros = i64::try_from(stores::micros(delay.unwrap_or_default()))?;
    Ok(Span::new().try_microseconds(micros)?)
}

impl Underway {
    pub fn open(address: &str, handlers: usize) -> Outcome<Self> {
        let runtime = runtime()?;
        let (pool, queue) = runtime.block_on(async {
            let pool = PgPoolOptions::new().max_connections(SESSIONS);
            let pool = pool.connect(address).await?;
            underway::run_migrations(&pool).await?;
            let queue = Queue::builder().name(QUEUE).pool(pool.clone());
            Outcome::Ok((pool, Arc::new(queue.build().await?)))
        })?;
        Ok(Self {
            runtime,
            pool,
            queue,
            handlers,
        })
    }

    fn worker(&self, handler: Handler) -> Worker<Bench> {
        let mut worker = Worker::new(Arc::clone(&self.queue), Bench::new(handler));
        worker.set_concurrency_limit(self.handlers);
        worker
    }
}

impl stores::Queue for Underway {
    /// Its call for several tasks has a common delay.
    fn push(&self, jobs: &[Job]) -> Outcome {
        self.runtime.block_on(async {
            if let [first, rest @ ..] = jobs
                && rest.iter().all(|job| job.due == first.due)
            {
                let texts: Vec<String> = jobs.iter().map(|job| job.text.clone()).collect();
                let task = Bench::pushed(delay(first)?);
                self.queue.enqueue_multi(&self.pool, &task, &texts).await?;
                return Ok(());
            }
            let mut transaction = self.pool.begin().await?;
            for job in jobs {
                let task = Bench::pushed(delay(job)?);
                self.queue
                    .enqueue(&mut *transaction, &task, &job.text)
                    .await?;
            }
            Ok(transaction.commit().await?)
        })
    }

    fn push_each(&self, clients: u32, after: Duration, until: Instant) -> Outcome<u32> {
        let (pool, queue) = (self.pool.clone(), Arc::clone(&self.queue));
        push_each(&self.runtime, clients, after, until, move |job| {
            let (pool, queue) = (pool.clone(), Arc::clone(&queue));
            async move {
                let task = Bench::pushed(delay(&job)?);
                queue.enqueue(&pool, &task, &job.text).await?;
                Ok(())
            }
        })
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        let tasks = (0..workers).map(|_| {
            let worker = self.worker(Arc::clone(&handler));
            self.runtime.spawn(async move {
                drop(worker.run_every(250.milliseconds()).await);
            })
        });
        Ok(Box::new(Tasks {
            handle: self.runtime.handle().clone(),
            tasks: tasks.collect(),
        }))
    }

    fn left(&self) -> Outcome<usize> {
        count(&self.runtime, &self.pool, LEFT)
    }

    fn look(&self) -> Outcome {
        let worker = self.worker(Arc::new(|_: &str| ()));
        match self.runtime.block_on(worker.process_next_task())? {
            None => Ok(()),
            Some(_) => Err("a claim returned a job although none was due".into()),
        }
    }
}

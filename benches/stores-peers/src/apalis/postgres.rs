//! apalis-postgres: batches of a hundred, woken by notifications, handlers side by side, no lock for
//! each job, as its example has it.

use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use futures_util::stream;
use sqlx_09::postgres::PgPoolOptions;
use stores::{Handler, Job, Outcome, Queue, Workers};
use tokio::runtime::Runtime;

use crate::runtime::{BATCH, QUEUE, SESSIONS, Threads, push_each, runtime};

pub struct Apalis {
    runtime: Runtime,
    pool: PgPool,
}

fn storage(pool: &PgPool) -> PostgresStorage<String> {
    let config = Config::default()
        .queue(QUEUE)
        .batch_size(BATCH)
        .lock_tasks(false);
    PostgresStorage::new(pool).with_config(config)
}

/// Its times are whole seconds.
async fn send(mut storage: PostgresStorage<String>, jobs: Vec<Job>) -> Outcome {
    let tasks = jobs.into_iter().map(|job| {
        let when = job.when();
        TaskBuilder::new(job.text).run_at_time(when).build()
    });
    Ok(storage.push_all(stream::iter(tasks)).await?)
}

impl Apalis {
    pub fn open(address: &str) -> Outcome<Self> {
        let runtime = runtime()?;
        let pool = runtime.block_on(async {
            let pool = PgPoolOptions::new().max_connections(SESSIONS);
            let pool = pool.connect(address).await?;
            PostgresStorage::setup(&pool).await?;
            Outcome::Ok(pool)
        })?;
        Ok(Self { runtime, pool })
    }
}

impl Queue for Apalis {
    fn push(&self, jobs: &[Job]) -> Outcome {
        self.runtime
            .block_on(send(storage(&self.pool), jobs.to_vec()))
    }

    fn push_each(&self, clients: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        let storage = storage(&self.pool);
        push_each(&self.runtime, clients, delay, until, move |job| {
            send(storage.clone(), vec![job])
        })
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        let mut threads = Threads::default();
        for number in 0..workers {
            let handler = handler.clone();
            let handle = move |text: String| {
                handler(&text);
                async { Ok::<(), BoxDynError>(()) }
            };
            let worker = WorkerBuilder::new(format!("worker-{number}"))
                .backend(storage(&self.pool).with_pubsub())
                .parallelize(tokio::spawn)
                .build(handle);
            threads.start(&self.runtime, move || async { drop(worker.run().await) });
        }
        Ok(Box::new(threads))
    }
}

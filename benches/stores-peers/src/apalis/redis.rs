//! apalis-redis: batches of a hundred, handlers side by side, no lock for each job; one connection, which
//! all clients share, as its documentation has it.

use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use futures_util::stream;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use stores::{Handler, Job, Outcome, Queue, Workers};
use tokio::runtime::Runtime;

use crate::runtime::{BATCH, QUEUE, Threads, push_each, runtime};

/// A worker ends when an answer takes longer. The client's half a second is too short for a server that
/// syncs.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct ApalisRedis {
    runtime: Runtime,
    connection: ConnectionManager,
}

fn storage(connection: &ConnectionManager) -> RedisStorage<String> {
    let config = Config::default()
        .queue(QUEUE)
        .batch_size(BATCH)
        .lock_tasks(false);
    RedisStorage::new(connection.clone()).with_config(config)
}

/// Its times are whole seconds.
async fn send(mut storage: RedisStorage<String>, jobs: Vec<Job>) -> Outcome {
    let tasks = jobs.into_iter().map(|job| {
        let when = job.when();
        TaskBuilder::new(job.text).run_at_time(when).build()
    });
    Ok(storage.push_all(stream::iter(tasks)).await?)
}

impl ApalisRedis {
    pub fn open(address: &str) -> Outcome<Self> {
        let runtime = runtime()?;
        let client = redis::Client::open(address)?;
        let config = ConnectionManagerConfig::new().set_response_timeout(Some(PATIENCE));
        let connection = ConnectionManager::new_with_config(client, config);
        let connection = runtime.block_on(connection)?;
        Ok(Self {
            runtime,
            connection,
        })
    }
}

impl Queue for ApalisRedis {
    fn push(&self, jobs: &[Job]) -> Outcome {
        self.runtime
            .block_on(send(storage(&self.connection), jobs.to_vec()))
    }

    fn push_each(&self, clients: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        let storage = storage(&self.connection);
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
                .backend(storage(&self.connection))
                .parallelize(tokio::spawn)
                .build(handle);
            threads.start(&self.runtime, move || async { drop(worker.run().await) });
        }
        Ok(Box::new(threads))
    }
}

//! apalis-postgres: woken by notifications.

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use futures_util::stream;
use sqlx_09::postgres::PgPoolOptions;
use stores::{Handler, Outcome};

use super::{Apalis, Storage, handle};
use crate::runtime::{QUEUE, SESSIONS, runtime};

const LEFT: &str = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";

#[derive(Clone)]
pub struct Postgres {
    storage: PostgresStorage<String>,
    handlers: Handlers,
}

/// Where handlers run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Handlers {
    /// Each in a task of its own.
    Apart,
    /// All in the task of the worker.
    Together,
}

impl Apalis<Postgres> {
    pub fn postgres(address: &str, batch: usize, handlers: Handlers) -> Outcome<Self> {
        let runtime = runtime()?;
        let pool = runtime.block_on(async {
            let pool = PgPoolOptions::new().max_connections(SESSIONS);
            let pool = pool.connect(address).await?;
            PostgresStorage::setup(&pool).await?;
            Outcome::Ok(pool)
        })?;
        let config = Config::default()
            .queue(QUEUE)
            .batch_size(batch)
            .lock_tasks(false);
        let storage = Postgres {
            storage: PostgresStorage::new(&pool).with_config(config),
            handlers,
        };
        Ok(Self { runtime, storage })
    }
}

impl Storage for Postgres {
    async fn enter(mut self, tasks: Vec<Task<String>>) -> Outcome {
        Ok(self.storage.push_all(stream::iter(tasks)).await?)
    }

    async fn left(self) -> Outcome<i64> {
        Ok(sqlx_09::query_scalar(LEFT)
            .fetch_one(self.storage.pool())
            .await?)
    }

    async fn work(self, worker: String, handler: Handler) {
        let worker = WorkerBuilder::new(worker).backend(self.storage.with_pubsub());
        let handle = handle(handler);
        match self.handlers {
            Handlers::Apart => {
                let worker = worker.parallelize(tokio::spawn).build(handle);
                drop(worker.run().await);
            }
            Handlers::Together => drop(worker.build(handle).run().await),
        }
    }
}

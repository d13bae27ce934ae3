//! apalis-postgres: woken by notifications.

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use futures_util::stream;
use sqlx_09::postgres::PgPoolOptions;
use stores::{Handler, Outcome};

use super::{Apalis, Storage, handle};
use crate::runtime::{BATCH, QUEUE, SESSIONS, runtime};

impl Apalis<PostgresStorage<String>> {
    pub fn postgres(address: &str) -> Outcome<Self> {
        let runtime = runtime()?;
        let pool = runtime.block_on(async {
            let pool = PgPoolOptions::new().max_connections(SESSIONS);
            let pool = pool.connect(address).await?;
            PostgresStorage::setup(&pool).await?;
            Outcome::Ok(pool)
        })?;
        let config = Config::default()
            .queue(QUEUE)
            .batch_size(BATCH)
            .lock_tasks(false);
        let storage = PostgresStorage::new(&pool).with_config(config);
        Ok(Self { runtime, storage })
    }
}

impl Storage for PostgresStorage<String> {
    async fn enter(mut self, tasks: Vec<Task<String>>) -> Outcome {
        Ok(self.push_all(stream::iter(tasks)).await?)
    }

    async fn work(self, worker: String, handler: Handler) {
        let worker = WorkerBuilder::new(worker)
            .backend(self.with_pubsub())
            .parallelize(tokio::spawn)
            .build(handle(handler));
        drop(worker.run().await);
    }
}

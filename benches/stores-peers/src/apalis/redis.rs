//! apalis-redis: one connection, which all clients share, as in its documentation.

use std::time::Duration;

use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use futures_util::stream;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use stores::{Handler, Outcome};

use super::{Apalis, Storage, handle};
use crate::runtime::{BATCH, QUEUE, runtime};

/// A worker ends if an answer takes longer. The client's default of half a second is too short for
/// a server that syncs.
const PATIENCE: Duration = Duration::from_secs(30);

impl Apalis<RedisStorage<String>> {
    pub fn redis(address: &str) -> Outcome<Self> {
        let runtime = runtime()?;
        let client = redis::Client::open(address)?;
        let config = ConnectionManagerConfig::new().set_response_timeout(Some(PATIENCE));
        let connection = ConnectionManager::new_with_config(client, config);
        let connection = runtime.block_on(connection)?;
        let config = Config::default()
            .queue(QUEUE)
            .batch_size(BATCH)
            .lock_tasks(false);
        let storage = RedisStorage::new(connection).with_config(config);
        Ok(Self { runtime, storage })
    }
}

impl Storage for RedisStorage<String> {
    async fn enter(mut self, tasks: Vec<Task<String>>) -> Outcome {
        Ok(self.push_all(stream::iter(tasks)).await?)
    }

    async fn work(self, worker: String, handler: Handler) {
        let worker = WorkerBuilder::new(worker)
            .backend(self)
            .parallelize(tokio::spawn)
            .build(handle(handler));
        drop(worker.run().await);
    }
}

//! pgmq: messages that are read, hidden for a time, and deleted. A worker reads a hundred with the
//! server-side polling that its client offers (every 250 ms), and deletes them with one call.

use std::time::{Duration, Instant};

use pgmq::PGMQueueExt;
use sqlx_08::postgres::PgPoolOptions;
use sqlx_08::{Pool, Postgres};
use stores::{Handler, Job, Outcome, Queue, Workers};
use tokio::runtime::Runtime;

use crate::runtime::{BATCH, QUEUE, SESSIONS, Tasks, push_each, runtime};

/// The client supports only whole seconds; the SQL function takes a timestamp.
const SEND: &str = "SELECT pgmq.send($1, t.message::jsonb, to_timestamp(t.due / 1e6))
    FROM unnest($2::text[], $3::bigint[]) AS t(message, due)";
/// How long a read message is hidden, in seconds.
const HIDDEN: i32 = 30;
const BATCH_SIZE: i32 = 100;
const POLL: Duration = Duration::from_secs(5);

pub struct Pgmq {
    runtime: Runtime,
    client: PGMQueueExt,
}

async fn send(pool: &Pool<Postgres>, jobs: &[Job]) -> Outcome {
    let texts: Vec<String> = jobs.iter().map(|job| format!("\"{}\"", job.text)).collect();
    let dues: Vec<i64> = jobs.iter().map(|job| job.due.cast_signed()).collect();
    let query = sqlx_08::query(SEND).bind(QUEUE).bind(texts).bind(dues);
    query.execute(pool).await?;
    Ok(())
}

impl Pgmq {
    pub fn open(address: &str) -> Outcome<Self> {
        let runtime = runtime()?;
        let client = runtime.block_on(async {
            let pool = PgPoolOptions::new().max_connections(SESSIONS);
            let pool = pool.connect(address).await?;
            let client = PGMQueueExt::new_with_pool(pool).await;
            client.install_sql_from_embedded().await?;
            client.create(QUEUE).await?;
            Outcome::Ok(client)
        })?;
        Ok(Self { runtime, client })
    }
}

impl Queue for Pgmq {
    fn push(&self, jobs: &[Job]) -> Outcome {
        self.runtime.block_on(send(&self.client.connection, jobs))
    }

    fn push_each(&self, clients: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        let pool = self.client.connection.clone();
        push_each(&self.runtime, clients, delay, until, move |job| {
            let pool = pool.clone();
            async move { send(&pool, &[job]).await }
        })
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        let worker = |_| {
            let (client, handler) = (self.client.clone(), handler.clone());
            self.runtime.spawn(async move {
                loop {
                    let read = client.read_batch_with_poll::<String>(
                        QUEUE,
                        HIDDEN,
                        BATCH_SIZE,
                        Some(POLL),
                        None,
                    );
                    let Ok(messages) = read.await else { return };
                    let messages = messages.unwrap_or_default();
                    for message in &messages {
                        handler(&message.message);
                    }
                    let ids: Vec<i64> = messages.iter().map(|message| message.msg_id).collect();
                    if !ids.is_empty() && client.delete_batch(QUEUE, &ids).await.is_err() {
                        return;
                    }
                }
            })
        };
        debug_assert_eq!(usize::try_from(BATCH_SIZE), Ok(BATCH));
        Ok(Box::new(Tasks {
            handle: self.runtime.handle().clone(),
            tasks: (0..workers).map(worker).collect(),
        }))
    }

    fn look(&self) -> Outcome {
        let read = self.client.read_batch::<String>(QUEUE, HIDDEN, BATCH_SIZE);
        let messages = self.runtime.block_on(read)?;
        if messages.is_empty() {
            Ok(())
        } else {
            Err("a claim returned a job although none was due".into())
        }
    }
}

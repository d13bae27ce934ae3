//! sqlxmq: a notification per job, and a runner that holds fifty to a hundred jobs and ends each
//! with its own call.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use sqlx_08::postgres::PgPoolOptions;
use sqlx_08::{Executor as _, PgExecutor, PgPool, Row as _};
use sqlxmq::{CurrentJob, JobBuilder, JobRunnerHandle, JobRunnerOptions};
use stores::{Handler, Job, Outcome, Queue, Workers};
use tokio::runtime::{Handle, Runtime};

use crate::runtime::{BATCH, SESSIONS, count, push_each, runtime};

/// A table definition of the crate, which is only in its sources.
macro_rules! table {
    ($name:literal) => {
        include_str!(concat!(env!("SQLXMQ_TABLES"), "/", $name, ".up.sql"))
    };
}

const TABLES: [&str; 5] = [
    table!("20210316025847_setup"),
    table!("20210921115907_clear"),
    table!("20211013151757_fix_mq_latest_message"),
    table!("20220208120856_fix_concurrent_poll"),
    table!("20220713122907_fix-clear_all-keep-nil-message"),
];
/// The query of its runner.
const POLL: &str = "SELECT count(id) FROM mq_poll(NULL, $1)";
/// Its table has a row that is no job.
const LEFT: &str = "SELECT count(*) FROM mq_msgs WHERE id <> uuid_nil()";

pub struct Sqlxmq {
    runtime: Runtime,
    pool: PgPool,
}

async fn send(executor: impl PgExecutor<'_>, job: &Job) -> Outcome {
    let delay = job.when().duration_since(SystemTime::now());
    // Intervals of the server have no nanoseconds.
    let micros = stores::micros(delay.unwrap_or_default());
    let mut builder = JobBuilder::new("bench");
    builder
        .set_json(&job.text)?
        .set_delay(Duration::from_micros(micros));
    builder.spawn(executor).await?;
    Ok(())
}

impl Sqlxmq {
    pub fn open(address: &str) -> Outcome<Self> {
        let runtime = runtime()?;
        let pool = runtime.block_on(async {
            let pool = PgPoolOptions::new().max_connections(SESSIONS);
            let pool = pool.connect(address).await?;
            let is_there = "SELECT to_regclass('mq_msgs') IS NOT NULL";
            if !pool.fetch_one(is_there).await?.get::<bool, _>(0) {
                for tables in TABLES {
                    pool.execute(sqlx_08::raw_sql(tables)).await?;
                }
            }
            Outcome::Ok(pool)
        })?;
        Ok(Self { runtime, pool })
    }
}

impl Queue for Sqlxmq {
    /// One transaction, because there is no call for several jobs.
    fn push(&self, jobs: &[Job]) -> Outcome {
        self.runtime.block_on(async {
            let mut transaction = self.pool.begin().await?;
            for job in jobs {
                send(&mut *transaction, job).await?;
            }
            Ok(transaction.commit().await?)
        })
    }

    fn push_each(&self, clients: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        let pool = self.pool.clone();
        push_each(&self.runtime, clients, delay, until, move |job| {
            let pool = pool.clone();
            async move { send(&pool, &job).await }
        })
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        let mut runners = Runners {
            handle: self.runtime.handle().clone(),
            runners: Vec::new(),
        };
        for _ in 0..workers {
            let handler = Arc::clone(&handler);
            let dispatch = move |mut job: CurrentJob| {
                let handler = Arc::clone(&handler);
                tokio::spawn(async move {
                    if let Ok(Some(text)) = job.json::<String>() {
                        handler(&text);
                    }
                    // The job is delivered again if this fails.
                    drop(job.complete().await);
                });
            };
            let mut runner = JobRunnerOptions::new(&self.pool, dispatch);
            runner.set_concurrency(BATCH / 2, BATCH);
            runners.runners.push(self.runtime.block_on(runner.run())?);
        }
        Ok(Box::new(runners))
    }

    fn left(&self) -> Outcome<usize> {
        count(&self.runtime, &self.pool, LEFT)
    }

    fn look(&self) -> Outcome {
        let poll = sqlx_08::query(POLL).bind(i32::try_from(BATCH)?);
        let row = self.runtime.block_on(poll.fetch_one(&self.pool))?;
        if row.get::<i64, _>(0) == 0 {
            Ok(())
        } else {
            Err("a claim returned a job although none was due".into())
        }
    }
}

struct Runners {
    handle: Handle,
    runners: Vec<JobRunnerHandle>,
}

impl Workers for Runners {}

impl Drop for Runners {
    fn drop(&mut self) {
        for runner in &mut self.runners {
            self.handle.block_on(runner.stop());
        }
    }
}

//! Graphile Worker: with a local queue, and completions sent in batches, as its documentation
//! recommends for many small jobs.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use graphile_worker::tokio_postgres::TokioPostgresDatabase;
use graphile_worker::{
    Database, DbExecutor as _, DbParams, IntoTaskHandlerResult, JobSpec, LocalQueueConfig,
    RawJobSpec, TaskHandler, Worker, WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use stores::{Fault, Handler, Job, Outcome, Queue, Workers};
use tokio::runtime::Runtime;

use crate::runtime::{Pace, SESSIONS, Tasks, push_each, runtime};

const COMPLETIONS: Duration = Duration::from_millis(5);

const LEFT: &str = "SELECT count(*) AS left FROM graphile_worker._private_jobs";

#[derive(Serialize, Deserialize)]
struct Payload {
    text: String,
}

#[derive(Clone)]
struct Called(Handler);

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Called")
    }
}

impl TaskHandler for Payload {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(Called(handler)) = context.get_ext() {
            handler(&self.text);
        }
        Ok::<(), String>(())
    }
}

pub struct Graphile {
    runtime: Runtime,
    database: Database,
    pace: Pace,
    utils: Arc<WorkerUtils>,
    looker: Worker,
}

fn spec(job: &Job) -> JobSpec {
    JobSpec {
        run_at: Some(DateTime::<Utc>::from(job.when())),
        ..JobSpec::default()
    }
}

async fn worker(database: &Database, pace: Pace, handler: Handler) -> Outcome<Worker> {
    let options = WorkerOptions::default()
        .database(database.clone())
        .concurrency(pace.handlers)
        .local_queue(LocalQueueConfig::default().with_size(pace.batch))
        .poll_interval(pace.poll)
        .complete_job_batch_delay(COMPLETIONS)
        .listen_os_shutdown_signals(false)
        .add_extension(Called(handler))
        .define_job::<Payload>();
    Ok(options.init().await?)
}

impl Graphile {
    pub fn open(address: &str, pace: Pace) -> Outcome<Self> {
        let runtime = runtime()?;
        let opened = runtime.block_on(async {
            let sessions = usize::try_from(SESSIONS)?;
            let database = Database::from(TokioPostgresDatabase::from_url(address, sessions)?);
            let looker = worker(&database, pace, Arc::new(|_: &str| ())).await?;
            Ok::<_, Fault>((database, looker))
        });
        let (database, looker) = opened?;
        Ok(Self {
            utils: Arc::new(looker.create_utils()),
            runtime,
            database,
            pace,
            looker,
        })
    }
}

impl Queue for Graphile {
    fn push(&self, jobs: &[Job]) -> Outcome {
        let raw = jobs.iter().map(|job| {
            Ok(RawJobSpec {
                identifier: Payload::IDENTIFIER.to_owned(),
                payload: serde_json::to_value(Payload {
                    text: job.text.clone(),
                })?,
                spec: spec(job),
            })
        });
        let raw: Vec<RawJobSpec> = raw.collect::<Outcome<_>>()?;
        self.runtime.block_on(self.utils.add_raw_jobs(&raw))?;
        Ok(())
    }

    fn push_each(&self, clients: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        let utils = Arc::clone(&self.utils);
        push_each(&self.runtime, clients, delay, until, move |job| {
            let utils = Arc::clone(&utils);
            async move {
                let spec = spec(&job);
                utils.add_job(Payload { text: job.text }, spec).await?;
                Ok(())
            }
        })
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        let mut tasks = Vec::new();
        for _ in 0..workers {
            let worker =
                self.runtime
                    .block_on(worker(&self.database, self.pace, handler.clone()))?;
            tasks.push(self.runtime.spawn(async move {
                drop(worker.run().await);
            }));
        }
        Ok(Box::new(Tasks {
            handle: self.runtime.handle().clone(),
            tasks,
        }))
    }

    fn left(&self) -> Outcome<usize> {
        let row = self.database.fetch_one(LEFT, DbParams::default());
        let left: i64 = self.runtime.block_on(row)?.try_get("left")?;
        Ok(usize::try_from(left)?)
    }

    fn look(&self) -> Outcome {
        Ok(self.runtime.block_on(self.looker.run_once())?)
    }
}

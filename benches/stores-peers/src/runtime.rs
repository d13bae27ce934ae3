//! The async runtime of the peers.

use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::{AbortHandle, Abortable};
use sqlx_08::PgPool;
use stores::{Fault, Job, Outcome, Workers};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinHandle, JoinSet};

/// As many sessions as there are concurrent clients.
pub const SESSIONS: u32 = 16;
/// Jobs that a worker takes at a time.
pub const BATCH: usize = 100;
pub const QUEUE: &str = "bench";

/// The settings of a worker.
#[derive(Clone, Copy)]
pub struct Pace {
    /// Concurrent handlers.
    pub handlers: usize,
    /// Jobs taken at a time.
    pub batch: usize,
    /// How often it looks for jobs that nothing announces.
    pub poll: Duration,
}

/// A thread per core.
pub fn runtime() -> Outcome<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// Clients as tasks, as in an async program.
pub fn push_each<F>(
    runtime: &Runtime,
    clients: u32,
    delay: Duration,
    until: Instant,
    push: impl Fn(Job) -> F + Clone + Send + 'static,
) -> Outcome<u32>
where
    F: Future<Output = Outcome> + Send,
{
    let mut team = JoinSet::new();
    for _ in 0..clients {
        let push = push.clone();
        let client = async move {
            let mut pushed = 0;
            while Instant::now() < until {
                push(Job::after(delay)).await?;
                pushed += 1;
            }
            Ok::<u32, Fault>(pushed)
        };
        team.spawn_on(client, runtime.handle());
    }
    runtime.block_on(async {
        let mut pushed = 0;
        while let Some(client) = team.join_next().await {
            pushed += client??;
        }
        Ok(pushed)
    })
}

/// The result of a query that counts jobs.
pub fn count(runtime: &Runtime, pool: &PgPool, query: &'static str) -> Outcome<usize> {
    let count = sqlx_08::query_scalar::<_, i64>(query).fetch_one(pool);
    Ok(usize::try_from(runtime.block_on(count)?)?)
}

/// Tasks that are aborted when this is dropped.
pub struct Tasks {
    pub handle: Handle,
    pub tasks: Vec<JoinHandle<()>>,
}

impl Workers for Tasks {}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        for task in self.tasks.drain(..) {
            drop(self.handle.block_on(task));
        }
    }
}

/// Futures that are not `Send` for the compiler, so each has its own thread. They have ended when
/// this is dropped.
#[derive(Default)]
pub struct Threads(Vec<(AbortHandle, Option<thread::JoinHandle<()>>)>);

impl Threads {
    pub fn start<F: Future<Output = ()>>(
        &mut self,
        runtime: &Runtime,
        future: impl FnOnce() -> F + Send + 'static,
    ) {
        let (abort, registration) = AbortHandle::new_pair();
        let runtime = runtime.handle().clone();
        let thread = thread::spawn(move || {
            // Ignored: it may have been aborted or have ended.
            let _ = runtime.block_on(Abortable::new(future(), registration));
        });
        self.0.push((abort, Some(thread)));
    }
}

impl Workers for Threads {}

impl Drop for Threads {
    fn drop(&mut self) {
        for (abort, thread) in &mut self.0 {
            abort.abort();
            drop(thread.take().map(thread::JoinHandle::join));
        }
    }
}

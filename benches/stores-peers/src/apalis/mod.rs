//! apalis, on each of its storages: batches of a hundred, concurrent handlers, no lock per job, as
//! in its examples.

mod postgres;
mod redis;

pub use postgres::Handlers;

use std::future::{Ready, ready};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use stores::{Handler, Job, Outcome, Queue, Workers};
use tokio::runtime::Runtime;

use crate::runtime::{Threads, push_each};

pub struct Apalis<S> {
    runtime: Runtime,
    storage: S,
}

/// Clones share the connections.
trait Storage: Clone + Send + Sync + 'static {
    fn enter(self, tasks: Vec<Task<String>>) -> impl Future<Output = Outcome> + Send;

    /// Counts the jobs that are not acknowledged.
    fn left(self) -> impl Future<Output = Outcome<i64>> {
        async { Err("the storage does not count its jobs".into()) }
    }

    /// Runs until it is dropped.
    fn work(self, worker: String, handler: Handler) -> impl Future<Output = ()>;
}

/// Its times are whole seconds.
fn tasks(jobs: impl IntoIterator<Item = Job>) -> Vec<Task<String>> {
    let task = |job: Job| {
        let when = job.when();
        TaskBuilder::new(job.text).run_at_time(when).build()
    };
    jobs.into_iter().map(task).collect()
}

impl<S: Storage> Queue for Apalis<S> {
    fn push(&self, jobs: &[Job]) -> Outcome {
        let storage = self.storage.clone();
        self.runtime.block_on(storage.enter(tasks(jobs.to_vec())))
    }

    fn push_each(&self, clients: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        let storage = self.storage.clone();
        push_each(&self.runtime, clients, delay, until, move |job| {
            storage.clone().enter(tasks([job]))
        })
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        let mut threads = Threads::default();
        for number in 0..workers {
            let (storage, handler) = (self.storage.clone(), handler.clone());
            let name = format!("worker-{number}");
            threads.start(&self.runtime, move || storage.work(name, handler));
        }
        Ok(Box::new(threads))
    }

    fn left(&self) -> Outcome<usize> {
        let left = self.runtime.block_on(self.storage.clone().left())?;
        Ok(usize::try_from(left)?)
    }
}

/// The handler that a worker runs.
fn handle(handler: Handler) -> impl Fn(String) -> Ready<Result<(), BoxDynError>> + Clone {
    move |text| {
        handler(&text);
        ready(Ok(()))
    }
}

//! The interface of a compared queue.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::job::Job;
use crate::place::Needs;

/// An error of a contender.
pub type Fault = Box<dyn Error + Send + Sync>;
/// The result of a call of a contender.
pub type Outcome<T = ()> = Result<T, Fault>;
/// Called with the text of each job.
pub type Handler = Arc<dyn Fn(&str) + Send + Sync>;

/// How often the unacknowledged jobs are counted after the last handler.
pub const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Running workers. When this is dropped, they end and close their sessions.
pub trait Workers {}

/// An open queue. A second one opened at the same place acts as another process.
pub trait Queue: Send + Sync {
    /// Pushes the jobs with one call, all or none.
    fn push(&self, jobs: &[Job]) -> Outcome;

    /// Has `clients` clients push jobs one by one until that time, each with its own session.
    /// Returns the number of jobs.
    fn push_each(&self, clients: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        let pushed = AtomicU32::new(0);
        let client = || -> Outcome {
            while Instant::now() < until {
                self.push(&[Job::after(delay)])?;
                pushed.fetch_add(1, Relaxed); // Read after the threads have ended.
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
            let mut ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(outcome) => outcome,
                Err(_) => Err("a client has panicked".into()),
            });
            ended.try_for_each(|outcome| outcome)
        })?;
        Ok(pushed.into_inner())
    }

    /// Like [`push_each`](Self::push_each), by async tasks of one process.
    fn push_each_async(&self, tasks: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        _ = (tasks, delay, until);
        Err("the contender has no async calls".into())
    }

    /// Starts workers as separate processes would, with the fastest documented settings. They
    /// acknowledge the jobs that the handler has seen.
    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>>;

    /// Returns the number of jobs that are not acknowledged in the store.
    fn left(&self) -> Outcome<usize> {
        Err("the contender does not count its jobs".into())
    }

    /// Has `clients` clients commit a row and a due job each, repeatedly until that time. Returns
    /// the jobs with the time of the client's confirmation, in microseconds since 1970.
    fn transact(&self, clients: u32, until: Instant) -> Outcome<Vec<(Job, u64)>> {
        _ = (clients, until);
        Err("the contender does not commit rows of an application".into())
    }

    /// Makes one claim, which finds no due job.
    fn look(&self) -> Outcome {
        Err("the contender has no call that claims".into())
    }
}

/// A compared queue.
#[derive(Clone, Copy)]
pub struct Contender {
    /// Ours begin with `ours`, yardsticks with `bare`.
    pub name: &'static str,
    pub needs: Needs,
    /// Opens the queue at that address or path, and creates missing tables.
    pub open: fn(&str) -> Outcome<Box<dyn Queue>>,
    pub can: Can,
}

/// The cases that a contender supports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Can {
    All,
    /// It has no [`Queue::look`].
    AllButLook,
    /// It differs from another contender only in the lateness of its jobs.
    Start,
    /// It differs from another contender only in how many jobs a worker claims.
    Work,
    /// It runs many handlers at a time.
    Handle,
    /// A yardstick of pushes.
    Push,
    /// Rows of an application, with or without jobs.
    Transact,
    /// A yardstick of lateness: it is in this process's memory, so no other process pushes.
    KeepTime,
}

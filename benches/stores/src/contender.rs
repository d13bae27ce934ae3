//! What a queue has to do to be compared.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::job::Job;
use crate::place::Needs;

/// Why something could not be done.
pub type Fault = Box<dyn Error + Send + Sync>;
/// What came of it.
pub type Outcome<T = ()> = Result<T, Fault>;
/// Is called with the text of each job.
pub type Handler = Arc<dyn Fn(&str) + Send + Sync>;

/// Workers, until they are dropped: then they have ended, and have no session any more.
pub trait Workers {}

/// One open queue. What opens a second one on the same place is another process as far as it knows.
pub trait Queue: Send + Sync {
    /// Enters jobs with one call, all or none.
    fn push(&self, jobs: &[Job]) -> Outcome;

    /// So many clients enter jobs one by one, each with a session of its own, until that time.
    /// Answers how many.
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

    /// Starts workers, each as a process would have it, by the fastest settings that are documented.
    /// They acknowledge what the handler has seen.
    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>>;

    /// So many clients commit a row and a job that is due at once, until that time. Answers with the jobs, and when each
    /// client knew that it was committed, in microseconds since 1970.
    fn transact(&self, clients: u32, until: Instant) -> Outcome<Vec<(Job, u64)>> {
        _ = (clients, until);
        Err("it does not commit rows of the application".into())
    }

    /// One claim, which finds nothing that is due.
    fn look(&self) -> Outcome {
        Err("it has no call that claims".into())
    }
}

/// One of those that are compared.
#[derive(Clone, Copy)]
pub struct Contender {
    /// Ours begin with `ours`, yardsticks with `bare`.
    pub name: &'static str,
    pub needs: Needs,
    /// Opens what is at that address or path, and makes its tables if they are missing.
    pub open: fn(&str) -> Outcome<Box<dyn Queue>>,
    pub can: Can,
}

/// What a contender can do at all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Can {
    All,
    /// It has no [`Queue::look`].
    AllButLook,
    /// What differs from another one in its times alone.
    Start,
    /// What differs from another one in how many jobs a worker claims alone.
    Work,
    /// A yardstick of pushes.
    Push,
    /// Rows of an application, with or without jobs.
    Transact,
    /// A yardstick of times: it is in this process's memory, so no other process pushes.
    KeepTime,
}

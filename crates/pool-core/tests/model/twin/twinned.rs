//! Calls whose outcome only the model knows: batches, permits, groups.

use pool_core::{BatchError, Closures, Func, FuncPool, Permit, Pool, WorkerPool};
use pool_util::{PoolExt, TaskGroup};

use super::job::{Id, Job, Out};
use super::subject::{Handle, How, Kind, Why, identify, job_id, why};

/// The kinds of pools that have a model.
pub(crate) trait Twinned: Kind {
    fn submit_batch(pool: &WorkerPool<Self>, jobs: Vec<Job>, how: How) -> Batch;
    fn redeem(permit: Permit<Self>, job: Job, spawn: bool) -> Option<Handle>;
    /// `None`: pools of this kind have no groups.
    fn group(pool: &WorkerPool<Self>) -> Option<TaskGroup<Out>>;
}

/// The number of accepted tasks of a batch. Then the reason of the refusal, and the returned tasks.
pub(crate) type Batch = (usize, Option<(Why, Vec<Id>)>);

impl Twinned for Closures {
    fn submit_batch(pool: &Pool, jobs: Vec<Job>, how: How) -> Batch {
        let tasks = jobs.into_iter().map(|job| move || _ = job.run());
        match how {
            How::Try => batch(pool.try_submit_batch(tasks), identify),
            How::Wait | How::Timeout(_) => batch(pool.submit_batch(tasks), identify),
        }
    }

    fn redeem(permit: Permit<Self>, job: Job, spawn: bool) -> Option<Handle> {
        if spawn {
            return Some(permit.spawn(move || job.run()));
        }
        permit.submit(move || _ = job.run());
        None
    }

    fn group(pool: &Pool) -> Option<TaskGroup<Out>> {
        Some(pool.group())
    }
}

impl Twinned for Func<Job, Out> {
    fn submit_batch(pool: &FuncPool<Job, Out>, jobs: Vec<Job>, how: How) -> Batch {
        match how {
            How::Try => batch(pool.try_submit_batch(jobs), job_id),
            How::Wait | How::Timeout(_) => batch(pool.submit_batch(jobs), job_id),
        }
    }

    fn redeem(permit: Permit<Self>, job: Job, spawn: bool) -> Option<Handle> {
        if spawn {
            return Some(permit.spawn(job));
        }
        permit.submit(job);
        None
    }

    fn group(_: &FuncPool<Job, Out>) -> Option<TaskGroup<Out>> {
        None
    }
}

fn batch<I: Iterator>(called: Result<usize, BatchError<I>>, whose: fn(I::Item) -> Id) -> Batch {
    match called {
        Ok(submitted) => (submitted, None),
        Err(refused) => {
            let (submitted, why) = (refused.submitted(), why(refused.reason()));
            (
                submitted,
                Some((why, refused.into_refused().map(whose).collect())),
            )
        }
    }
}

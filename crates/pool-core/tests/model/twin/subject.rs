//! The pool under test, whichever its kind: every way to hand a task over, with one answer.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pool_core::{
    Builder, Closures, Func, FuncPool, JoinHandle, Pool, Runner, SubmitError, WorkerPool,
};

use super::job::{Id, Job, Out};

pub(crate) type Handle = JoinHandle<Out>;
pub(crate) type Submission = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What the caller does at a full pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Wait,
    Try,
    Timeout(Duration),
}

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    /// With a handle, if it was a spawn.
    Accepted(Option<Handle>),
    /// And whose task came back.
    Refused(Why, Id),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Full,
    Released,
    TimedOut,
    NoThread,
}

/// What `release_now` says of the tasks that were not started.
#[derive(Debug)]
pub(crate) enum Unstarted {
    Number(usize),
    Jobs(Vec<Id>),
}

/// The kinds of pool.
pub(crate) trait Kind: Runner + Sized {
    fn builder() -> Builder<Self>;
    fn submit(pool: &WorkerPool<Self>, job: Job, how: How) -> Answer;
    fn spawn(pool: &WorkerPool<Self>, job: Job, how: How) -> Answer;
    fn submit_async(pool: &WorkerPool<Self>, job: Job) -> Submission;
    fn spawn_async(pool: &WorkerPool<Self>, job: Job) -> Submission;
    fn release_now(pool: &WorkerPool<Self>) -> Unstarted;
}

impl Kind for Closures {
    fn builder() -> Builder<Self> {
        Pool::builder()
    }

    fn submit(pool: &Pool, job: Job, how: How) -> Answer {
        let task = move || _ = job.run();
        let submitted = match how {
            How::Wait => pool.submit(task),
            How::Try => pool.try_submit(task),
            How::Timeout(timeout) => pool.submit_timeout(task, timeout),
        };
        answer(submitted.map(|()| None), identify)
    }

    fn spawn(pool: &Pool, job: Job, how: How) -> Answer {
        let task = move || job.run();
        let spawned = match how {
            How::Wait => pool.spawn(task),
            How::Try => pool.try_spawn(task),
            How::Timeout(timeout) => pool.spawn_timeout(task, timeout),
        };
        answer(spawned.map(Some), identify)
    }

    fn submit_async(pool: &Pool, job: Job) -> Submission {
        let submitted = pool.submit_async(move || _ = job.run());
        Box::pin(async { answer(submitted.await.map(|()| None), identify) })
    }

    fn spawn_async(pool: &Pool, job: Job) -> Submission {
        let spawned = pool.spawn_async(move || job.run());
        Box::pin(async { answer(spawned.await.map(Some), identify) })
    }

    fn release_now(pool: &Pool) -> Unstarted {
        Unstarted::Number(pool.release_now())
    }
}

impl Kind for Func<Job, Out> {
    fn builder() -> Builder<Self> {
        FuncPool::builder(Job::run)
    }

    fn submit(pool: &FuncPool<Job, Out>, job: Job, how: How) -> Answer {
        let submitted = match how {
            How::Wait => pool.submit(job),
            How::Try => pool.try_submit(job),
            How::Timeout(timeout) => pool.submit_timeout(job, timeout),
        };
        answer(submitted.map(|()| None), job_id)
    }

    fn spawn(pool: &FuncPool<Job, Out>, job: Job, how: How) -> Answer {
        let spawned = match how {
            How::Wait => pool.spawn(job),
            How::Try => pool.try_spawn(job),
            How::Timeout(timeout) => pool.spawn_timeout(job, timeout),
        };
        answer(spawned.map(Some), job_id)
    }

    fn submit_async(pool: &FuncPool<Job, Out>, job: Job) -> Submission {
        let submitted = pool.submit_async(job);
        Box::pin(async { answer(submitted.await.map(|()| None), job_id) })
    }

    fn spawn_async(pool: &FuncPool<Job, Out>, job: Job) -> Submission {
        let spawned = pool.spawn_async(job);
        Box::pin(async { answer(spawned.await.map(Some), job_id) })
    }

    fn release_now(pool: &FuncPool<Job, Out>) -> Unstarted {
        Unstarted::Jobs(pool.release_now().into_iter().map(job_id).collect())
    }
}

thread_local! {
    /// Set while a task that came back is called to learn whose it is.
    static ASKING: Cell<bool> = const { Cell::new(false) };
    static FOUND: Cell<Option<Id>> = const { Cell::new(None) };
}

/// Whose task `call` runs, without running it: the one way to look into a closure.
pub(crate) fn identify<T>(call: impl FnOnce() -> T) -> Id {
    ASKING.set(true);
    call();
    ASKING.set(false);
    let found = FOUND.take();
    found.expect("a task that came back is one of ours")
}

/// For a task: whether it is only asked who it is. Then this is the answer.
pub(crate) fn is_asked(id: Id) -> bool {
    if ASKING.get() {
        FOUND.set(Some(id));
    }
    ASKING.get()
}

fn job_id(job: Job) -> Id {
    identify(|| job.run())
}

fn answer<T>(
    called: Result<Option<Handle>, SubmitError<T>>,
    whose: impl FnOnce(T) -> Id,
) -> Answer {
    match called {
        Ok(handle) => Answer::Accepted(handle),
        Err(refused) => {
            let why = match &refused {
                SubmitError::Full(_) => Why::Full,
                SubmitError::Released(_) => Why::Released,
                SubmitError::TimedOut(_) => Why::TimedOut,
                SubmitError::NoThread(..) => Why::NoThread,
                other => panic!("no program leads to {other:?}"),
            };
            Answer::Refused(why, whose(refused.into_task()))
        }
    }
}

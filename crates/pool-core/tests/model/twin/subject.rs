//! The pool under test, of either kind: every submitting call, with one type of answer.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use pool_core::internals::PriorityHost;
use pool_core::{
    Builder, CancelToken, Closures, Func, FuncPool, JoinHandle, Pool, Priority, Runner,
    SubmitError, TaskBuilder, WorkerPool,
};

use super::job::{Id, Job, Out};

pub(crate) type Handle = JoinHandle<Out>;
pub(crate) type Submission = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The behaviour of a call at a full pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Wait,
    Try,
    Timeout(Duration),
}

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    /// With a handle, if the call was a spawn.
    Accepted(Option<Handle>),
    /// Refused, with the task that was returned.
    Refused(Why, Id),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Full,
    Released,
    TimedOut,
    NoThread,
    Cancelled,
}

/// The unstarted tasks that `release_now` returned.
#[derive(Debug)]
pub(crate) enum Unstarted {
    Number(usize),
    Jobs(Vec<Id>),
}

/// The options of a task.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) priority: Priority,
    pub(crate) token: Option<CancelToken>,
    pub(crate) start_before: Option<Instant>,
}

impl Options {
    fn set<P: PriorityHost>(self, task: TaskBuilder<'_, P>) -> TaskBuilder<'_, P> {
        let task = task.priority(self.priority);
        let task = match &self.token {
            Some(token) => task.cancelled_by(token),
            None => task,
        };
        match self.start_before {
            Some(when) => task.start_before(when),
            None => task,
        }
    }
}

/// The kinds of pools. A call without options uses the plain call, which has code of its own.
pub(crate) trait Kind: Runner + Sized {
    fn builder() -> Builder<Self>;
    fn submit(pool: &WorkerPool<Self>, job: Job, how: How, options: Option<Options>) -> Answer;
    fn spawn(pool: &WorkerPool<Self>, job: Job, how: How, options: Option<Options>) -> Answer;
    fn submit_async(pool: &WorkerPool<Self>, job: Job, options: Option<Options>) -> Submission;
    fn spawn_async(pool: &WorkerPool<Self>, job: Job, options: Option<Options>) -> Submission;
    fn release_now(pool: &WorkerPool<Self>) -> Unstarted;
}

/// Submits a task by the call for `how`.
macro_rules! hand {
    ($to:expr, $task:expr, $how:expr, $wait:ident, $try:ident, $timeout:ident) => {
        match $how {
            How::Wait => $to.$wait($task),
            How::Try => $to.$try($task),
            How::Timeout(timeout) => $to.$timeout($task, timeout),
        }
    };
}

macro_rules! submit {
    ($to:expr, $task:expr, $how:expr) => {
        hand!($to, $task, $how, submit, try_submit, submit_timeout)
    };
}

macro_rules! spawn {
    ($to:expr, $task:expr, $how:expr) => {
        hand!($to, $task, $how, spawn, try_spawn, spawn_timeout)
    };
}

impl Kind for Closures {
    fn builder() -> Builder<Self> {
        Pool::builder()
    }

    fn submit(pool: &Pool, job: Job, how: How, options: Option<Options>) -> Answer {
        let task = move || _ = job.run();
        let submitted = match options {
            None => submit!(pool, task, how),
            Some(options) => submit!(options.set(pool.task()), task, how),
        };
        answer(submitted.map(|()| None), identify)
    }

    fn spawn(pool: &Pool, job: Job, how: How, options: Option<Options>) -> Answer {
        let task = move || job.run();
        let spawned = match options {
            None => spawn!(pool, task, how),
            Some(options) => spawn!(options.set(pool.task()), task, how),
        };
        answer(spawned.map(Some), identify)
    }

    fn submit_async(pool: &Pool, job: Job, options: Option<Options>) -> Submission {
        let task = move || _ = job.run();
        match options {
            None => submission(pool.submit_async(task), |()| None, identify),
            Some(options) => {
                let submitted = options.set(pool.task()).submit_async(task);
                submission(submitted, |()| None, identify)
            }
        }
    }

    fn spawn_async(pool: &Pool, job: Job, options: Option<Options>) -> Submission {
        let task = move || job.run();
        match options {
            None => submission(pool.spawn_async(task), Some, identify),
            Some(options) => {
                let spawned = options.set(pool.task()).spawn_async(task);
                submission(spawned, Some, identify)
            }
        }
    }

    fn release_now(pool: &Pool) -> Unstarted {
        Unstarted::Number(pool.release_now())
    }
}

impl Kind for Func<Job, Out> {
    fn builder() -> Builder<Self> {
        FuncPool::builder(Job::run)
    }

    fn submit(pool: &FuncPool<Job, Out>, job: Job, how: How, options: Option<Options>) -> Answer {
        let submitted = match options {
            None => submit!(pool, job, how),
            Some(options) => submit!(options.set(pool.task()), job, how),
        };
        answer(submitted.map(|()| None), job_id)
    }

    fn spawn(pool: &FuncPool<Job, Out>, job: Job, how: How, options: Option<Options>) -> Answer {
        let spawned = match options {
            None => spawn!(pool, job, how),
            Some(options) => spawn!(options.set(pool.task()), job, how),
        };
        answer(spawned.map(Some), job_id)
    }

    fn submit_async(pool: &FuncPool<Job, Out>, job: Job, options: Option<Options>) -> Submission {
        match options {
            None => submission(pool.submit_async(job), |()| None, job_id),
            Some(options) => {
                let submitted = options.set(pool.task()).submit_async(job);
                submission(submitted, |()| None, job_id)
            }
        }
    }

    fn spawn_async(pool: &FuncPool<Job, Out>, job: Job, options: Option<Options>) -> Submission {
        match options {
            None => submission(pool.spawn_async(job), Some, job_id),
            Some(options) => {
                let spawned = options.set(pool.task()).spawn_async(job);
                submission(spawned, Some, job_id)
            }
        }
    }

    fn release_now(pool: &FuncPool<Job, Out>) -> Unstarted {
        Unstarted::Jobs(pool.release_now().into_iter().map(job_id).collect())
    }
}

fn submission<T, U>(
    call: impl Future<Output = Result<U, SubmitError<T>>> + Send + 'static,
    handle: fn(U) -> Option<Handle>,
    whose: fn(T) -> Id,
) -> Submission
where
    T: 'static,
    U: 'static,
{
    Box::pin(async move { answer(call.await.map(handle), whose) })
}

thread_local! {
    /// Set while a returned task is called only to tell its id.
    static ASKING: Cell<bool> = const { Cell::new(false) };
    static FOUND: Cell<Option<Id>> = const { Cell::new(None) };
}

/// Returns the id of the task that `call` runs, without running it.
pub(crate) fn identify<T>(call: impl FnOnce() -> T) -> Id {
    ASKING.set(true);
    call();
    ASKING.set(false);
    let found = FOUND.take();
    found.expect("a returned task belongs to the program")
}

/// Called by a task: if it is only asked for its id, records the id and returns true.
pub(crate) fn is_asked(id: Id) -> bool {
    if ASKING.get() {
        FOUND.set(Some(id));
    }
    ASKING.get()
}

pub(crate) fn job_id(job: Job) -> Id {
    identify(|| job.run())
}

pub(crate) fn why<T>(refused: &SubmitError<T>) -> Why {
    match refused {
        SubmitError::Full(_) => Why::Full,
        SubmitError::Released(_) => Why::Released,
        SubmitError::TimedOut(_) => Why::TimedOut,
        SubmitError::NoThread(..) => Why::NoThread,
        SubmitError::Cancelled(_) => Why::Cancelled,
        other => panic!("no program leads to {other:?}"),
    }
}

pub(crate) fn answer<T>(
    called: Result<Option<Handle>, SubmitError<T>>,
    whose: impl FnOnce(T) -> Id,
) -> Answer {
    match called {
        Ok(handle) => Answer::Accepted(handle),
        Err(refused) => Answer::Refused(why(&refused), whose(refused.into_task())),
    }
}

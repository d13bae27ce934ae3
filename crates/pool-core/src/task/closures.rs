//! Closures as tasks: the runner of a `Pool`.

use std::any::type_name;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::accept::{Accepts, Promise, Sealed};
use crate::foreign::drop_quietly;
use crate::runner::Runner;
use crate::sched::ready::Priority;
use crate::task::cell::{Body, LARGE, SpawnCell};
use crate::task::erased::{Task, Work};
use crate::task::record::{Record, TaskRecord};
use crate::task::run::{Outcome, TaskContext, TaskResult, Unrun};

/// Runs closures: the runner of a [`Pool`](crate::Pool).
#[derive(Clone, Debug)]
pub struct Closures(pub(crate) ());

impl Runner for Closures {
    type Job = Task;
    type Item = ();

    fn run(&self, job: Task, context: &TaskContext) -> TaskResult {
        job.run(context)
    }

    fn release(&self, job: Task) -> (TaskResult, Option<()>) {
        (job.release(), None)
    }

    fn seize(&self, job: &Task, why: Unrun) -> bool {
        job.seize(why)
    }

    fn name_of(&self, job: &Task) -> Option<&'static str> {
        job.name()
    }

    fn given_name_of<'a>(&self, job: &'a Task) -> Option<&'a str> {
        job.given_name()
    }

    fn priority_of(job: &Task) -> Priority {
        job.priority()
    }

    fn is_tombstone(job: &Task) -> bool {
        job.is_tombstone()
    }
}

/// A closure without a handle. What it returns is dropped as a part of the task.
pub(crate) struct Plain<F>(pub(crate) F);

impl<T, F: FnOnce() -> T + Send + 'static> Work for Plain<F> {
    fn run(self, context: &TaskContext) -> TaskResult {
        context.execute_detached(type_name::<F>(), self.0)
    }

    fn release(self) -> TaskResult {
        drop_quietly(self.0);
        TaskResult::without_handle(Outcome::Released)
    }

    fn name() -> Option<&'static str> {
        Some(type_name::<F>())
    }
}

/// The queue's half of a spawned closure.
pub(crate) struct Spawned<B: Body>(pub(crate) Arc<SpawnCell<B>>);

impl<B: Body> Work for Spawned<B> {
    fn run(self, context: &TaskContext) -> TaskResult {
        self.0.run(context)
    }

    fn release(self) -> TaskResult {
        let (result, body) = self.0.release();
        drop_quietly(body);
        result
    }

    fn seize(&self, why: Unrun) -> bool {
        self.0.seize(why)
    }

    fn priority(&self) -> Priority {
        self.0.priority()
    }

    fn name() -> Option<&'static str> {
        Some(B::name())
    }

    fn given_name(&self) -> Option<&str> {
        self.0.given_name()
    }

    fn is_tombstone(&self) -> bool {
        self.0.is_tombstone()
    }
}

/// A closure in a cell; with an `N`, what it was given.
pub(crate) struct Call<F, N>(pub(crate) F, pub(crate) PhantomData<N>);

impl<T: Send + 'static, F: FnOnce() -> T + Send + 'static, N: Record> Body for Call<F, N> {
    type Out = T;
    type Record = N;

    fn call(self) -> T {
        (self.0)()
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// A large closure in a cell: a body is moved through the stacks of those that take it out.
struct LargeCall<F, N>(Box<F>, PhantomData<N>);

impl<T: Send + 'static, F: FnOnce() -> T + Send + 'static, N: Record> Body for LargeCall<F, N> {
    type Out = T;
    type Record = N;

    fn call(self) -> T {
        (*self.0)()
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// `F` is a closure that returns a `T`.
impl<F, T> Accepts<F> for Closures
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Value = T;

    #[inline]
    fn plain(closure: F) -> Task {
        Task::new(Plain(closure))
    }

    #[inline]
    fn spawned(&self, closure: F) -> (impl FnOnce() -> Task + Send + use<F, T>, Promise<T>) {
        let cell = InCell::new(closure, ());
        let promise = cell.promise();
        (move || cell.into_job(), promise)
    }

    fn recorded(&self, closure: F, record: TaskRecord) -> (Task, Promise<T>) {
        let cell = InCell::new(closure, record);
        let promise = cell.promise();
        (cell.into_job(), promise)
    }

    fn task_of(job: Task) -> F {
        let job = match job.into_work::<Plain<F>>() {
            Ok(plain) => return plain.0,
            Err(job) => job,
        };
        let back =
            InCell::<F, T, ()>::take_back(job).or_else(InCell::<F, T, TaskRecord>::take_back);
        back.unwrap_or_else(|other| unreachable!("{other:?} came back in another's place"))
    }
}

impl<F, T> Sealed<F> for Closures
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
}

/// A closure in its cell. Which of the two it is, its type says.
enum InCell<F, T, N>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    N: Record,
{
    Small(Arc<SpawnCell<Call<F, N>>>),
    Large(Arc<SpawnCell<LargeCall<F, N>>>),
}

impl<F, T, N> InCell<F, T, N>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    N: Record,
{
    #[inline]
    fn new(closure: F, record: N) -> Self {
        if size_of::<F>() > LARGE {
            Self::Large(SpawnCell::new(
                LargeCall(Box::new(closure), PhantomData),
                record,
            ))
        } else {
            Self::Small(SpawnCell::new(Call(closure, PhantomData), record))
        }
    }

    #[inline]
    fn promise(&self) -> Promise<T> {
        match self {
            Self::Small(cell) => Promise(Arc::clone(cell) as _),
            Self::Large(cell) => Promise(Arc::clone(cell) as _),
        }
    }

    #[inline]
    fn into_job(self) -> Task {
        match self {
            Self::Small(cell) => Task::new(Spawned(cell)),
            Self::Large(cell) => Task::new(Spawned(cell)),
        }
    }

    /// The closure, if the job is such a cell's.
    fn take_back(job: Task) -> Result<F, Task> {
        let job = match job.into_work::<Spawned<Call<F, N>>>() {
            Ok(spawned) => return Ok(spawned.0.take_back().0),
            Err(job) => job,
        };
        let large = job.into_work::<Spawned<LargeCall<F, N>>>()?;
        Ok(*large.0.take_back().0)
    }
}

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

/// What a job calls: a closure, and which part of its value the task has.
pub(crate) trait Callee: Send + 'static {
    type Out: Send + 'static;
    fn call(self) -> Self::Out;
    /// The closure's type, which hooks get.
    fn name() -> &'static str;
}

impl<F, T> Callee for F
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Out = T;

    fn call(self) -> T {
        self()
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// A closure among tasks of which some [yield no value](Ignored): it does.
pub(crate) struct Wanted<F>(pub(crate) F);

impl<F, T> Callee for Wanted<F>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Out = Option<T>;

    fn call(self) -> Option<T> {
        Some((self.0)())
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// A closure among tasks that yield a `T`: what it returns is dropped as a part of the task.
pub(crate) struct Ignored<F, T>(pub(crate) F, PhantomData<fn() -> T>);

impl<F, T> Ignored<F, T> {
    pub(crate) fn new(closure: F) -> Self {
        Self(closure, PhantomData)
    }
}

impl<F, T, V> Callee for Ignored<F, T>
where
    F: FnOnce() -> V + Send + 'static,
    T: Send + 'static,
{
    type Out = Option<T>;

    fn call(self) -> Option<T> {
        drop((self.0)());
        None
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// A closure in a cell; with an `N`, what it was given.
pub(crate) struct Call<F, N>(pub(crate) F, pub(crate) PhantomData<N>);

impl<F: Callee, N: Record> Body for Call<F, N> {
    type Out = F::Out;
    type Record = N;

    fn call(self) -> F::Out {
        self.0.call()
    }

    fn name() -> &'static str {
        F::name()
    }
}

/// A large closure in a cell: a body is moved through the stacks of those that take it out.
struct LargeCall<F, N>(Box<F>, PhantomData<N>);

impl<F: Callee, N: Record> Body for LargeCall<F, N> {
    type Out = F::Out;
    type Record = N;

    fn call(self) -> F::Out {
        (*self.0).call()
    }

    fn name() -> &'static str {
        F::name()
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
        in_cell(closure, ())
    }

    fn recorded(&self, closure: F, record: TaskRecord) -> (Task, Promise<T>) {
        let (job, promise) = in_cell(closure, record);
        (job(), promise)
    }

    fn task_of(job: Task) -> F {
        match job.into_work::<Plain<F>>() {
            Ok(plain) => plain.0,
            Err(job) => callee_of(job),
        }
    }
}

/// The callee of a job in a cell, whose job was refused.
fn callee_of<F: Callee>(job: Task) -> F {
    let back = InCell::<F, ()>::take_back(job).or_else(InCell::<F, TaskRecord>::take_back);
    back.unwrap_or_else(|other| unreachable!("{other:?} came back in another's place"))
}

impl<F, T> Sealed<F> for Closures
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
}

/// A callee that is no plain closure. It is spawned, so its job is always in a cell.
pub(crate) struct Given<C>(pub(crate) C);

impl<C: Callee> Accepts<Given<C>> for Closures {
    type Value = C::Out;

    fn plain(Given(callee): Given<C>) -> Task {
        in_cell(callee, ()).0()
    }

    #[inline]
    fn spawned(
        &self,
        Given(callee): Given<C>,
    ) -> (impl FnOnce() -> Task + Send + use<C>, Promise<C::Out>) {
        in_cell(callee, ())
    }

    fn recorded(&self, Given(callee): Given<C>, record: TaskRecord) -> (Task, Promise<C::Out>) {
        let (job, promise) = in_cell(callee, record);
        (job(), promise)
    }

    fn task_of(job: Task) -> Given<C> {
        Given(callee_of(job))
    }
}

impl<C: Callee> Sealed<Given<C>> for Closures {}

/// What makes the job of a callee, and what its handle holds.
#[inline]
fn in_cell<F: Callee, N: Record>(
    callee: F,
    record: N,
) -> (impl FnOnce() -> Task + Send + use<F, N>, Promise<F::Out>) {
    let cell = InCell::new(callee, record);
    let promise = cell.promise();
    (move || cell.into_job(), promise)
}

/// A callee in its cell. Which of the two it is, its type says.
enum InCell<F: Callee, N: Record> {
    Small(Arc<SpawnCell<Call<F, N>>>),
    Large(Arc<SpawnCell<LargeCall<F, N>>>),
}

impl<F: Callee, N: Record> InCell<F, N> {
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
    fn promise(&self) -> Promise<F::Out> {
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

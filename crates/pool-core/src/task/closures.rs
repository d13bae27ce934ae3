//! The runner of a `Pool`: closures as tasks.

use std::any::type_name;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;

use sync_shim::Mutex;

use crate::config::OnFull;
use crate::engine::core::Core;
use crate::engine::runner::{Accepts, Runner, SealedFor};
use crate::error::SubmitError;
use crate::foreign::drop_quietly;
use crate::sched::load::Outcome;
use crate::sched::ready::Priority;
use crate::sched::shared::Place;
use crate::task::cell::{Body, SpawnCell};
use crate::task::current::Frame;
use crate::task::erased::{Task, Work};
use crate::task::options::{HasRecord, TaskRecord, WaitLimits};
use crate::task::run::{TaskContext, TaskResult, Unrun};

/// A runner that calls closures: that of a [`Pool`](crate::Pool).
#[derive(Clone, Debug)]
pub struct Closures(pub(crate) ());

impl Runner for Closures {
    type Job = Task;
    type Item = ();

    fn run(&self, job: ManuallyDrop<Task>, context: &TaskContext) -> TaskResult {
        Task::run(job, context)
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

    fn spawned(cell: Arc<SpawnCell>) -> Task {
        Task::new(Spawned(cell))
    }

    fn recorded(job: Task, record: TaskRecord) -> Task {
        Task::new(Recorded(RecordedJob::new(job, record)))
    }

    fn unrecorded(job: Task) -> Task {
        match job.into_inner::<Recorded>() {
            Ok(recorded) => recorded.0.take(),
            Err(plain) => plain,
        }
    }

    // Like the provided methods, but not generic, so that they and their callees are compiled once, with this crate.

    unsafe fn place_job(core: &Core<Self>) -> Option<Place<'_, Task>> {
        // SAFETY: the caller promises what `plain_place` asks for.
        unsafe { core.plain_place() }
    }

    unsafe fn job_placed(core: &Core<Self>, place: Place<'_, Task>) {
        // SAFETY: the caller has written the job.
        unsafe { core.filled(place) };
    }

    fn submit_job(
        core: &Arc<Core<Self>>,
        job: &mut Option<Task>,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        core.submit_plain(job, on_full)
    }

    fn admit_job(
        core: &Arc<Core<Self>>,
        job: &mut Option<Task>,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Result<(), SubmitError> {
        core.submit(job, on_full, limits)
    }
}

/// The queue's half of a spawned closure.
pub(crate) struct Spawned(pub(crate) Arc<SpawnCell>);

impl Work for Spawned {
    fn run(self, context: &TaskContext) -> TaskResult {
        self.0.run(context)
    }

    fn release(self) -> TaskResult {
        self.0.release(None)
    }

    fn seize(&self, why: Unrun) -> bool {
        self.0.seize(why)
    }

    fn priority(&self) -> Priority {
        self.0.priority()
    }

    fn type_name(&self) -> Option<&'static str> {
        Some(self.0.type_name())
    }

    fn given_name(&self) -> Option<&str> {
        self.0.given_name()
    }

    fn is_tombstone(&self) -> bool {
        self.0.is_tombstone()
    }
}

/// A submitted closure with a record.
pub(crate) struct Recorded(Arc<RecordedJob<Task>>);

impl Work for Recorded {
    fn run(self, context: &TaskContext) -> TaskResult {
        let name = self.0.with_job(Task::name).unwrap_or_default();
        self.0.run(name, context, Task::call)
    }

    fn release(self) -> TaskResult {
        self.0.take().release()
    }

    fn priority(&self) -> Priority {
        self.0.record.priority
    }

    fn type_name(&self) -> Option<&'static str> {
        self.0.with_job(Task::name)
    }

    fn given_name(&self) -> Option<&str> {
        self.0.record.name.as_deref()
    }
}

impl<F, T> Body for F
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self) -> T {
        self()
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// A spawned closure whose value is dropped as part of the task.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Ignored<F>(pub F);

/// The value of an [`Ignored`] closure.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct NoValue;

impl<F, V> Body for Ignored<F>
where
    F: FnOnce() -> V + Send + 'static,
{
    type Out = NoValue;

    fn call(self) -> NoValue {
        drop((self.0)());
        NoValue
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
        Task::closure(closure)
    }

    #[inline]
    fn plain_in(closure: F, place: &mut MaybeUninit<Task>) {
        Task::closure_in(closure, place);
    }

    fn task_of(job: Task) -> F {
        task_of(job)
    }

    #[inline]
    fn in_cell(&self, closure: F, record: Option<Box<TaskRecord>>) -> Arc<SpawnCell> {
        SpawnCell::new(closure, record)
    }

    fn task_in(cell: &SpawnCell) -> F {
        cell.take_back()
    }
}

impl crate::engine::runner::Sealed for Closures {}

impl<F, T> SealedFor<F> for Closures
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
}

/// A task of a group. It is spawned, so its job is always a cell.
impl<F, V> Accepts<Ignored<F>> for Closures
where
    F: FnOnce() -> V + Send + 'static,
{
    type Value = NoValue;

    fn plain(task: Ignored<F>) -> Task {
        Task::closure(task)
    }

    fn task_of(job: Task) -> Ignored<F> {
        task_of(job)
    }

    #[inline]
    fn in_cell(&self, task: Ignored<F>, record: Option<Box<TaskRecord>>) -> Arc<SpawnCell> {
        SpawnCell::new(task, record)
    }

    fn task_in(cell: &SpawnCell) -> Ignored<F> {
        cell.take_back()
    }
}

impl<F, V> SealedFor<Ignored<F>> for Closures where F: FnOnce() -> V + Send + 'static {}

fn task_of<B: Body>(job: Task) -> B {
    let body = job.into_inner();
    body.unwrap_or_else(|other| unreachable!("{other:?} came back in another's place"))
}

/// A job and its record in one allocation.
pub(crate) struct RecordedJob<J> {
    pub(crate) record: TaskRecord,
    /// The job, until it is run or released.
    job: Mutex<Option<J>>,
}

impl<J: Send + 'static> RecordedJob<J> {
    pub(crate) fn new(job: J, record: TaskRecord) -> Arc<Self> {
        let job = Mutex::new(Some(job));
        Arc::new(Self { record, job })
    }

    /// Takes the job, for the one owner of the queue entry.
    pub(crate) fn take(&self) -> J {
        let job = self.job.lock().take();
        job.expect("the entry is run, released or taken back once")
    }

    /// Inspects the job while it is in the queue.
    pub(crate) fn with_job<T>(&self, look: impl FnOnce(&J) -> Option<T>) -> Option<T> {
        self.job.lock().as_ref().and_then(look)
    }

    /// Runs the job unless its record forbids it. `call` may unwind.
    pub(crate) fn run(
        self: Arc<Self>,
        type_name: &'static str,
        context: &TaskContext,
        call: impl FnOnce(J),
    ) -> TaskResult {
        let job = self.take();
        if let Some(why) = self.record.forbids_start(context) {
            drop_quietly(job);
            context.not_run(self.record.label(type_name), why);
            return TaskResult::without_handle(Outcome::not_run(why));
        }
        let frame = Frame::of(&self);
        let ran = self.record.execute(type_name, context, || call(job));
        drop(frame);
        TaskResult::without_handle(Outcome::of(ran))
    }
}

impl<J: Send + 'static> HasRecord for RecordedJob<J> {
    fn record(&self) -> &TaskRecord {
        &self.record
    }
}

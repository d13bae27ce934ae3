//! `Pool`: any closure is a task.

use std::any::type_name;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::builder::Builder;
use crate::cell::{Body, LARGE, SpawnCell};
use crate::core::{Core, Patience, Runner};
use crate::enter::Enter;
use crate::error::SubmitError;
use crate::family::Child;
use crate::foreign::drop_quietly;
use crate::handle::JoinHandle;
use crate::line::Settled;
use crate::pool::{WeakWorkerPool, WorkerPool};
use crate::run::{Env, Outcome, Ran};
use crate::task::{Task, Work};

/// A pool that runs closures.
///
/// ```
/// use pool_core::Pool;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
///
/// let pool = Pool::builder().capacity(4).build()?;
/// let sum = Arc::new(AtomicU64::new(0));
/// for number in 0..1000 {
///     let sum = Arc::clone(&sum);
///     // Blocks while all four workers are busy.
///     pool.submit(move || _ = sum.fetch_add(number, Ordering::Relaxed))?;
/// }
/// pool.wait_idle()?;
/// assert_eq!(sum.load(Ordering::Relaxed), 499_500);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub type Pool = WorkerPool<Closures>;

/// A [`Pool`]'s handle that keeps nothing open.
pub type WeakPool = WeakWorkerPool<Closures>;

/// Runs closures.
#[derive(Clone, Debug)]
pub struct Closures(());

impl Runner for Closures {
    type Job = Task;
    type Item = ();

    fn run(&self, job: Task, env: &Env) -> Ran {
        job.run(env)
    }

    fn release(&self, job: Task) -> (Ran, Option<()>) {
        (job.release(), None)
    }

    fn seize(&self, job: &Task) -> bool {
        job.seize()
    }

    fn is_tombstone(&self, job: &Task) -> bool {
        job.is_tombstone()
    }
}

/// A closure that nobody waits for.
struct Plain<F>(F);

impl<F: FnOnce() + Send + 'static> Work for Plain<F> {
    fn run(self, env: &Env) -> Ran {
        env.execute_detached(type_name::<F>(), self.0)
    }

    fn release(self) -> Ran {
        drop_quietly(self.0);
        Ran::untold(Outcome::Released)
    }
}

/// The queue's half of a spawned closure.
struct Spawned<B: Body>(Arc<SpawnCell<B>>);

impl<B: Body> Work for Spawned<B> {
    fn run(self, env: &Env) -> Ran {
        self.0.run(env)
    }

    fn release(self) -> Ran {
        let (ran, body) = self.0.release();
        drop_quietly(body);
        ran
    }

    fn seize(&self) -> bool {
        self.0.seize()
    }

    fn is_tombstone(&self) -> bool {
        self.0.is_tombstone()
    }
}

/// A closure in a spawn's cell.
struct Call<F>(F);

impl<T: Send + 'static, F: FnOnce() -> T + Send + 'static> Body for Call<F> {
    type Out = T;

    fn call(self) -> T {
        (self.0)()
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// A large closure in a spawn's cell: a body is moved through the stacks of those that take it out.
struct LargeCall<F>(Box<F>);

impl<T: Send + 'static, F: FnOnce() -> T + Send + 'static> Body for LargeCall<F> {
    type Out = T;

    fn call(self) -> T {
        (*self.0)()
    }

    fn name() -> &'static str {
        type_name::<F>()
    }
}

/// The closure of a task that came back.
fn closure_of<F: FnOnce() + Send + 'static>(task: Task) -> F {
    match task.into_work::<Plain<F>>() {
        Ok(plain) => plain.0,
        Err(other) => unreachable!("{other:?} came back in another's place"),
    }
}

/// What the spawning of a closure keeps until its task is accepted or comes back.
#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "never leaves these crates")]
pub struct SpawnedClosure<F: FnOnce() -> T + Send + 'static, T: Send + 'static> {
    // Made at once, so that a future dropped after its task was accepted detaches it.
    handle: JoinHandle<T>,
    cell: ClosureCell<F, T>,
}

enum ClosureCell<F: FnOnce() -> T + Send + 'static, T: Send + 'static> {
    Small(Arc<SpawnCell<Call<F>>>),
    Large(Arc<SpawnCell<LargeCall<F>>>),
}

impl<F, T> SpawnedClosure<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn new(closure: F, core: &Arc<Core<Closures>>) -> (Task, Self) {
        if size_of::<F>() > LARGE {
            let cell = SpawnCell::new(LargeCall(Box::new(closure)));
            Self::of_cell(cell, core, ClosureCell::Large)
        } else {
            Self::of_cell(SpawnCell::new(Call(closure)), core, ClosureCell::Small)
        }
    }

    fn of_cell<B: Body<Out = T>>(
        cell: Arc<SpawnCell<B>>,
        core: &Arc<Core<Closures>>,
        keep: impl FnOnce(Arc<SpawnCell<B>>) -> ClosureCell<F, T>,
    ) -> (Task, Self) {
        let entry = Task::new(Spawned(Arc::clone(&cell)));
        let handle = JoinHandle::new(Arc::clone(&cell) as _, Arc::clone(core) as _);
        let cell = keep(cell);
        (entry, Self { handle, cell })
    }

    /// The handle of an accepted task, or the closure of one that came back.
    ///
    /// # Errors
    /// As given, with the closure.
    pub fn settle(
        self,
        settled: Result<(), SubmitError<Task>>,
    ) -> Result<JoinHandle<T>, SubmitError<F>> {
        match settled {
            Ok(()) => Ok(self.handle),
            Err(refused) => Err(refused.map(|_entry| match self.cell {
                ClosureCell::Small(cell) => cell.take_back().0,
                ClosureCell::Large(cell) => *cell.take_back().0,
            })),
        }
    }
}

/// What a multi-pool of closures submits.
impl Closures {
    /// A closure that nobody waits for.
    #[doc(hidden)]
    pub fn plain<F: FnOnce() + Send + 'static>(closure: F) -> Task {
        Task::new(Plain(closure))
    }

    /// The closure of a plain task that came back.
    #[doc(hidden)]
    pub fn closure_of<F: FnOnce() + Send + 'static>(task: Task) -> F {
        closure_of(task)
    }

    /// A closure with a handle, whose clock and panic hook are the child's.
    #[doc(hidden)]
    pub fn spawned<F, T>(closure: F, child: &Child<Closures>) -> (Task, SpawnedClosure<F, T>)
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        SpawnedClosure::new(closure, &child.0)
    }
}

impl Pool {
    /// Sets a pool of closures up. A capacity has to be said.
    pub fn builder() -> Builder<Closures> {
        Builder::new(Closures(()))
    }

    fn submit_with<F>(&self, task: F, patience: Patience) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        if let Some(reason) = self.core().refuses(patience) {
            return Err(reason.with(task));
        }
        self.core()
            .submit(Task::new(Plain(task)), patience)
            .map_err(|(reason, task)| reason.with(closure_of(task)))
    }

    fn spawn_with<F, T>(&self, task: F, patience: Patience) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if let Some(reason) = self.core().refuses(patience) {
            return Err(reason.with(task));
        }
        let (entry, spawned) = SpawnedClosure::new(task, self.core());
        let settled = self.core().submit(entry, patience);
        spawned.settle(settled.map_err(|(reason, entry)| reason.with(entry)))
    }

    /// Hands a task over, to be run and forgotten. Waits while the pool is full.
    ///
    /// On one of the pool's own workers a full pool runs the task in place instead (see
    /// [`WithinWorker`](crate::WithinWorker)). A closure of up to 56 bytes is stored without an
    /// allocation. May block for as long as starting the first thread takes.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    #[doc(alias = "Submit")]
    pub fn submit<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_with(task, self.patience())
    }

    /// As [`submit`](Pool::submit), but refuses at a full pool. Never waits for room; while there is
    /// no worker at all it starts the first one, or waits for its start.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_submit<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_with(task, Patience::None)
    }

    /// As [`submit`](Pool::submit), but waits at most for so long. A start of the first worker that
    /// it has to make itself takes as long as it takes.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_timeout<F>(&self, task: F, timeout: Duration) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_with(task, self.patience_of(timeout))
    }

    /// As [`submit`](Pool::submit), but waits at most until then.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_deadline<F>(&self, task: F, deadline: Instant) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_with(task, Patience::Until(Some(deadline)))
    }

    /// As [`submit`](Pool::submit), as a future: it resolves once the task is accepted.
    ///
    /// Futures and threads stand in one line. Nothing happens before the first poll, which may have
    /// to start the first worker, or to wait for its start; after it
    /// the future need not be polled for its task to be accepted. Dropping it takes a task that
    /// has not been accepted back. It never runs the task in place. Works under any runtime.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_async<F>(
        &self,
        task: F,
    ) -> impl Future<Output = Result<(), SubmitError<F>>> + Send + Unpin + use<F>
    where
        F: FnOnce() + Send + 'static,
    {
        let entry = Task::new(Plain(task));
        Enter::new(Arc::clone(self.core()), entry, |settled: Settled<Task>| {
            settled.map_err(|(reason, task)| reason.with(closure_of(task)))
        })
    }

    /// Hands a task over and returns a handle to its value. Waits as [`submit`](Pool::submit)
    /// does. Costs one allocation, and one more for a closure of more than a kilobyte.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn<F, T>(&self, task: F) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(task, self.patience())
    }

    /// As [`spawn`](Pool::spawn), but refuses at a full pool.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_spawn<F, T>(&self, task: F) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(task, Patience::None)
    }

    /// As [`spawn`](Pool::spawn), but waits at most for so long.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_timeout<F, T>(
        &self,
        task: F,
        timeout: Duration,
    ) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(task, self.patience_of(timeout))
    }

    /// As [`spawn`](Pool::spawn), but waits at most until then.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_deadline<F, T>(
        &self,
        task: F,
        deadline: Instant,
    ) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(task, Patience::Until(Some(deadline)))
    }

    /// As [`spawn`](Pool::spawn), as a future that resolves to the handle once the task is
    /// accepted; see [`submit_async`](Pool::submit_async).
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_async<F, T>(
        &self,
        task: F,
    ) -> impl Future<Output = Result<JoinHandle<T>, SubmitError<F>>> + Send + Unpin + use<F, T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let core = Arc::clone(self.core());
        let (entry, spawned) = SpawnedClosure::new(task, &core);
        Enter::new(core, entry, move |settled: Settled<Task>| {
            spawned.settle(settled.map_err(|(reason, entry)| reason.with(entry)))
        })
    }

    /// Releases, and takes out the tasks that have not started: their number. What they captured
    /// is dropped on this thread, and their handles end with `Released`. Does not wait for
    /// running tasks.
    pub fn release_now(&self) -> usize {
        self.core().release_now(|()| {})
    }
}

//! `Pool`: any closure is a task.

use std::any::type_name;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::builder::Builder;
use crate::cell::{Body, SpawnCell};
use crate::core::{Core, Patience, Runner};
use crate::enter::Enter;
use crate::error::SubmitError;
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
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
}

/// A closure that nobody waits for.
struct Plain<F>(F);

impl<F: FnOnce() + Send + 'static> Work for Plain<F> {
    fn run(self, env: &Env) -> Ran {
        env.execute_detached(type_name::<F>(), self.0)
    }

    fn release(self) -> Ran {
        drop_quietly(self.0);
        Ran {
            outcome: Outcome::Released,
            resolve: None,
        }
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

/// The closure of a task that came back.
fn closure_of<F: FnOnce() + Send + 'static>(task: Task) -> F {
    match task.into_work::<Plain<F>>() {
        Ok(plain) => plain.0,
        Err(other) => unreachable!("{other:?} came back in another's place"),
    }
}

/// The handle of an accepted spawn, or the closure of a refused one.
fn handle_or_closure<F, T>(
    handle: JoinHandle<T>,
    cell: &SpawnCell<Call<F>>,
    settled: Settled<Task>,
) -> Result<JoinHandle<T>, SubmitError<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match settled {
        Ok(()) => Ok(handle),
        Err((reason, _entry)) => Err(reason.with(cell.take_back().0)),
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
        self.core()
            .submit(Task::new(Plain(task)), patience)
            .map_err(|(reason, task)| reason.with(closure_of(task)))
    }

    fn spawn_with<F, T>(&self, task: F, patience: Patience) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let cell = SpawnCell::new(Call(task));
        let entry = Task::new(Spawned(Arc::clone(&cell)));
        let settled = self.core().submit(entry, patience);
        let core: Arc<Core<_>> = Arc::clone(self.core());
        handle_or_closure(
            JoinHandle::new(Arc::clone(&cell) as _, core),
            &cell,
            settled,
        )
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

    /// As [`submit`](Pool::submit), but refuses at a full pool. Never waits for room.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_submit<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_with(task, Patience::None)
    }

    /// As [`submit`](Pool::submit), but waits at most for so long.
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
    /// Futures and threads stand in one line. Nothing happens before the first poll; after it
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
    /// does. Costs one allocation.
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
        let cell = SpawnCell::new(Call(task));
        let entry = Task::new(Spawned(Arc::clone(&cell)));
        // Made now, so that a future dropped after its task was accepted detaches it.
        let handle = JoinHandle::new(Arc::clone(&cell) as _, Arc::clone(&core) as _);
        Enter::new(core, entry, move |settled| {
            handle_or_closure(handle, &cell, settled)
        })
    }

    /// Releases, and takes out the tasks that have not started: their number. What they captured
    /// is dropped on this thread, and their handles end with `Released`. Does not wait for
    /// running tasks.
    pub fn release_now(&self) -> usize {
        self.core().release_now(|()| {})
    }
}

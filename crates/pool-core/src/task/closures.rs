//! `Pool`: any closure is a task.

use std::any::type_name;
use std::sync::Arc;

use crate::accept::{Accepts, Promise, Sealed};
use crate::builder::Builder;
use crate::foreign::drop_quietly;
use crate::pool::{WeakWorkerPool, WorkerPool};
use crate::runner::Runner;
use crate::task::cell::{Body, LARGE, SpawnCell};
use crate::task::erased::{Task, Work};
use crate::task::run::{Outcome, TaskContext, TaskResult, Unrun};

/// A pool that runs closures.
///
/// Closures are handed over with [`submit`](WorkerPool::submit) and [`spawn`](WorkerPool::spawn),
/// which gives a handle to what the closure returns; there are calls that refuse at a full pool,
/// that wait so long, and that are futures.
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

/// Runs closures: the runner of a [`Pool`].
#[derive(Clone, Debug)]
pub struct Closures(());

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

    fn is_tombstone(&self, job: &Task) -> bool {
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

    fn name() -> Option<&'static str> {
        Some(B::name())
    }

    fn is_tombstone(&self) -> bool {
        self.0.is_tombstone()
    }
}

/// A closure in a spawn's cell.
pub(crate) struct Call<F>(pub(crate) F);

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
    fn spawned(&self, closure: F) -> (Task, Promise<T>) {
        if size_of::<F>() > LARGE {
            spawned(LargeCall(Box::new(closure)))
        } else {
            spawned(Call(closure))
        }
    }

    fn task_of(job: Task) -> F {
        let job = match job.into_work::<Plain<F>>() {
            Ok(plain) => return plain.0,
            Err(job) => job,
        };
        let job = match job.into_work::<Spawned<Call<F>>>() {
            Ok(spawned) => return spawned.0.take_back().0,
            Err(job) => job,
        };
        match job.into_work::<Spawned<LargeCall<F>>>() {
            Ok(spawned) => *spawned.0.take_back().0,
            Err(other) => unreachable!("{other:?} came back in another's place"),
        }
    }
}

impl<F, T> Sealed<F> for Closures
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
}

fn spawned<B: Body>(body: B) -> (Task, Promise<B::Out>) {
    let cell = SpawnCell::new(body);
    (Task::new(Spawned(Arc::clone(&cell))), Promise(cell))
}

impl Pool {
    /// Sets a pool of closures up. A capacity has to be said.
    pub fn builder() -> Builder<Closures> {
        Builder::new(Closures(()))
    }

    /// Releases, and takes out the tasks that have not started: their number. What they captured
    /// is dropped on this thread, and their handles end with `Released`. Does not wait for
    /// running tasks.
    pub fn release_now(&self) -> usize {
        self.core().release_now(|()| {})
    }
}

//! `FuncPool`: one function, many arguments.

use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::builder::Builder;
use crate::cell::{Body, SpawnCell};
use crate::core::{Core, Patience, Runner};
use crate::enter::Enter;
use crate::error::SubmitError;
use crate::family::Child;
use crate::handle::JoinHandle;
use crate::line::Settled;
use crate::pack::Packed;
use crate::pool::{WeakWorkerPool, WorkerPool};
use crate::run::{Env, Outcome, Ran};

/// A pool that calls one function with each argument submitted.
///
/// An argument of up to 56 bytes lies in the queue as it is, without an allocation; a larger one
/// costs one box. No value of it has a special meaning.
///
/// The function takes it by value, so a worker's stack has to hold it a few times over in a debug
/// build: give what is larger than a few hundred kilobytes to the pool in a box of its own, or set
/// the [stack size](crate::Builder::stack_size).
///
/// ```
/// use pool_core::FuncPool;
///
/// let squares = FuncPool::builder(|n: u64| n * n).capacity(2).queue_depth(100).build()?;
/// let handles: Vec<_> = (1..=10).map(|n| squares.spawn(n)).collect::<Result<_, _>>()?;
/// let mut sum = 0;
/// for handle in handles {
///     sum += handle.join()?;
/// }
/// assert_eq!(sum, 385);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[doc(alias = "PoolWithFunc")]
#[doc(alias = "PoolWithFuncGeneric")]
pub type FuncPool<T, R = ()> = WorkerPool<Func<T, R>>;

/// A [`FuncPool`]'s handle that keeps nothing open.
pub type WeakFuncPool<T, R = ()> = WeakWorkerPool<Func<T, R>>;

type Function<T, R> = dyn Fn(T) -> R + Send + Sync;

/// Runs one function.
pub struct Func<T, R> {
    function: Arc<Function<T, R>>,
}

/// An argument in the queue.
pub struct FuncJob<T: Send + 'static, R: Send + 'static>(Kind<T, R>);

enum Kind<T: Send + 'static, R: Send + 'static> {
    Plain(Packed<T>),
    Spawned(Arc<SpawnCell<Call<T, R>>>),
}

/// An argument in a spawn's cell.
struct Call<T, R> {
    argument: Packed<T>,
    function: Arc<Function<T, R>>,
}

impl<T: Send + 'static, R: Send + 'static> Body for Call<T, R> {
    type Out = R;

    fn call(self) -> R {
        (self.function)(self.argument.into_inner())
    }

    fn name() -> &'static str {
        type_name::<T>()
    }
}

impl<T: Send + 'static, R: Send + 'static> Runner for Func<T, R> {
    type Job = FuncJob<T, R>;
    type Item = T;

    fn run(&self, job: FuncJob<T, R>, env: &Env) -> Ran {
        match job.0 {
            Kind::Plain(argument) => {
                env.execute_detached(type_name::<T>(), || (self.function)(argument.into_inner()))
            }
            Kind::Spawned(cell) => cell.run(env),
        }
    }

    fn release(&self, job: FuncJob<T, R>) -> (Ran, Option<T>) {
        match job.0 {
            Kind::Plain(argument) => {
                let ran = Ran::untold(Outcome::Released);
                (ran, Some(argument.into_inner()))
            }
            Kind::Spawned(cell) => {
                let (ran, body) = cell.release();
                (ran, body.map(|call| call.argument.into_inner()))
            }
        }
    }

    fn seize(&self, job: &FuncJob<T, R>) -> bool {
        match &job.0 {
            Kind::Plain(_) => true,
            Kind::Spawned(cell) => cell.seize(),
        }
    }

    fn is_tombstone(&self, job: &FuncJob<T, R>) -> bool {
        match &job.0 {
            Kind::Plain(_) => false,
            Kind::Spawned(cell) => cell.is_tombstone(),
        }
    }
}

/// The argument of a task that came back.
fn argument_of<T: Send + 'static, R: Send + 'static>(job: FuncJob<T, R>) -> T {
    match job.0 {
        Kind::Plain(argument) => argument.into_inner(),
        Kind::Spawned(cell) => cell.take_back().argument.into_inner(),
    }
}

fn refuse<T: Send + 'static, R: Send + 'static>(
    settled: Settled<FuncJob<T, R>>,
) -> Result<(), SubmitError<T>> {
    settled.map_err(|(reason, job)| reason.with(argument_of(job)))
}

/// What a multi-pool of one function submits.
impl<T: Send + 'static, R: Send + 'static> Func<T, R> {
    /// An argument whose value nobody waits for.
    #[doc(hidden)]
    pub fn plain(argument: T) -> FuncJob<T, R> {
        FuncJob(Kind::Plain(Packed::new(argument)))
    }

    /// The argument of a job that came back.
    #[doc(hidden)]
    pub fn argument_of(job: FuncJob<T, R>) -> T {
        argument_of(job)
    }

    /// An argument and the handle to its value, whose clock and panic hook are the child's.
    #[doc(hidden)]
    pub fn spawned(argument: T, child: &Child<Self>) -> (FuncJob<T, R>, JoinHandle<R>) {
        let cell = SpawnCell::new(Call {
            argument: Packed::new(argument),
            function: Arc::clone(&child.0.runner.function),
        });
        let job = FuncJob(Kind::Spawned(Arc::clone(&cell)));
        (job, JoinHandle::new(cell, Arc::clone(&child.0) as _))
    }
}

impl<T: Send + 'static, R: Send + 'static> FuncPool<T, R> {
    /// Sets a pool of `function` up. A capacity has to be said.
    pub fn builder(function: impl Fn(T) -> R + Send + Sync + 'static) -> Builder<Func<T, R>> {
        Builder::new(Func {
            function: Arc::new(function),
        })
    }

    fn submit_with(&self, argument: T, patience: Patience) -> Result<(), SubmitError<T>> {
        if let Some(reason) = self.core().refuses(patience) {
            return Err(reason.with(argument));
        }
        refuse(self.core().submit(Func::plain(argument), patience))
    }

    fn cell(&self, argument: T) -> Arc<SpawnCell<Call<T, R>>> {
        SpawnCell::new(Call {
            argument: Packed::new(argument),
            function: Arc::clone(&self.core().runner.function),
        })
    }

    fn spawn_with(&self, argument: T, patience: Patience) -> Result<JoinHandle<R>, SubmitError<T>> {
        if let Some(reason) = self.core().refuses(patience) {
            return Err(reason.with(argument));
        }
        let cell = self.cell(argument);
        let job = FuncJob(Kind::Spawned(Arc::clone(&cell)));
        refuse(self.core().submit(job, patience))?;
        let core: Arc<Core<_>> = Arc::clone(self.core());
        Ok(JoinHandle::new(cell, core))
    }

    /// Hands an argument over, to be called with and forgotten; the value is dropped. Waits
    /// while the pool is full.
    ///
    /// On one of the pool's own workers a full pool calls the function in place instead (see
    /// [`WithinWorker`](crate::WithinWorker)).
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    #[doc(alias = "Invoke")]
    pub fn submit(&self, argument: T) -> Result<(), SubmitError<T>> {
        self.submit_with(argument, self.patience())
    }

    /// As [`submit`](FuncPool::submit), but refuses at a full pool. Never waits for room.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn try_submit(&self, argument: T) -> Result<(), SubmitError<T>> {
        self.submit_with(argument, Patience::None)
    }

    /// As [`submit`](FuncPool::submit), but waits at most for so long.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn submit_timeout(&self, argument: T, timeout: Duration) -> Result<(), SubmitError<T>> {
        self.submit_with(argument, self.patience_of(timeout))
    }

    /// As [`submit`](FuncPool::submit), but waits at most until then.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn submit_deadline(&self, argument: T, deadline: Instant) -> Result<(), SubmitError<T>> {
        self.submit_with(argument, Patience::Until(Some(deadline)))
    }

    /// As [`submit`](FuncPool::submit), as a future: see
    /// [`Pool::submit_async`](crate::Pool::submit_async).
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn submit_async(
        &self,
        argument: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<T, R> {
        let job = Func::plain(argument);
        Enter::new(Arc::clone(self.core()), job, refuse)
    }

    /// Hands an argument over and returns a handle to the value. Costs one allocation, and
    /// one more for an argument of more than 56 bytes.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn spawn(&self, argument: T) -> Result<JoinHandle<R>, SubmitError<T>> {
        self.spawn_with(argument, self.patience())
    }

    /// As [`spawn`](FuncPool::spawn), but refuses at a full pool.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn try_spawn(&self, argument: T) -> Result<JoinHandle<R>, SubmitError<T>> {
        self.spawn_with(argument, Patience::None)
    }

    /// As [`spawn`](FuncPool::spawn), but waits at most for so long.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn spawn_timeout(
        &self,
        argument: T,
        timeout: Duration,
    ) -> Result<JoinHandle<R>, SubmitError<T>> {
        self.spawn_with(argument, self.patience_of(timeout))
    }

    /// As [`spawn`](FuncPool::spawn), but waits at most until then.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn spawn_deadline(
        &self,
        argument: T,
        deadline: Instant,
    ) -> Result<JoinHandle<R>, SubmitError<T>> {
        self.spawn_with(argument, Patience::Until(Some(deadline)))
    }

    /// As [`spawn`](FuncPool::spawn), as a future that resolves to the handle.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn spawn_async(
        &self,
        argument: T,
    ) -> impl Future<Output = Result<JoinHandle<R>, SubmitError<T>>> + Send + Unpin + use<T, R>
    {
        let core = Arc::clone(self.core());
        let cell = self.cell(argument);
        let job = FuncJob(Kind::Spawned(Arc::clone(&cell)));
        // Made now, so that a future dropped after its task was accepted detaches it.
        let handle = JoinHandle::new(cell, Arc::clone(&core) as _);
        Enter::new(core, job, |settled| {
            refuse(settled)?;
            Ok(handle)
        })
    }

    /// Releases, and takes out the arguments that have not been called with. Their handles end
    /// with `Released`. Does not wait for running tasks.
    pub fn release_now(&self) -> Vec<T> {
        let mut items = Vec::new();
        self.core().release_now(|item| items.push(item));
        items
    }
}

impl<T, R> Clone for Func<T, R> {
    fn clone(&self) -> Self {
        Self {
            function: Arc::clone(&self.function),
        }
    }
}

impl<T, R> fmt::Debug for Func<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Func(..)")
    }
}

impl<T: Send + 'static, R: Send + 'static> fmt::Debug for FuncJob<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FuncJob(..)")
    }
}

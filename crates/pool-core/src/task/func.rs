//! `FuncPool`: one function, many arguments.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use crate::accept::{Accepts, Promise, Sealed};
use crate::builder::Builder;
use crate::pool::{WeakWorkerPool, WorkerPool};
use crate::runner::Runner;
use crate::task::cell::{Body, SpawnCell};
use crate::task::pack::Packed;
use crate::task::run::{Outcome, TaskContext, TaskResult, Unrun};

/// A pool that calls one function with each argument submitted.
///
/// Arguments are handed over with [`submit`](WorkerPool::submit), which drops the function's value,
/// and [`spawn`](WorkerPool::spawn), which gives a handle to it; there are calls that refuse at a
/// full pool, that wait so long, and that are futures.
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

/// Runs one function: the runner of a [`FuncPool`].
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

    fn run(&self, job: FuncJob<T, R>, context: &TaskContext) -> TaskResult {
        match job.0 {
            Kind::Plain(argument) => context
                .execute_detached(type_name::<T>(), || (self.function)(argument.into_inner())),
            Kind::Spawned(cell) => cell.run(context),
        }
    }

    fn release(&self, job: FuncJob<T, R>) -> (TaskResult, Option<T>) {
        match job.0 {
            Kind::Plain(argument) => {
                let result = TaskResult::without_handle(Outcome::Released);
                (result, Some(argument.into_inner()))
            }
            Kind::Spawned(cell) => {
                let (result, body) = cell.release();
                (result, body.map(|call| call.argument.into_inner()))
            }
        }
    }

    fn seize(&self, job: &FuncJob<T, R>, why: Unrun) -> bool {
        match &job.0 {
            Kind::Plain(_) => true,
            Kind::Spawned(cell) => cell.seize(why),
        }
    }

    fn name_of(&self, _job: &FuncJob<T, R>) -> Option<&'static str> {
        Some(type_name::<T>())
    }

    fn is_tombstone(&self, job: &FuncJob<T, R>) -> bool {
        match &job.0 {
            Kind::Plain(_) => false,
            Kind::Spawned(cell) => cell.is_tombstone(),
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> Accepts<T> for Func<T, R> {
    type Value = R;

    #[inline]
    fn plain(argument: T) -> FuncJob<T, R> {
        FuncJob(Kind::Plain(Packed::new(argument)))
    }

    #[inline]
    fn spawned(&self, argument: T) -> (FuncJob<T, R>, Promise<R>) {
        let cell = SpawnCell::new(Call {
            argument: Packed::new(argument),
            function: Arc::clone(&self.function),
        });
        (FuncJob(Kind::Spawned(Arc::clone(&cell))), Promise(cell))
    }

    fn task_of(job: FuncJob<T, R>) -> T {
        match job.0 {
            Kind::Plain(argument) => argument.into_inner(),
            Kind::Spawned(cell) => cell.take_back().argument.into_inner(),
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> Sealed<T> for Func<T, R> {}

impl<T: Send + 'static, R: Send + 'static> FuncPool<T, R> {
    /// Sets a pool of `function` up. A capacity has to be said.
    pub fn builder(function: impl Fn(T) -> R + Send + Sync + 'static) -> Builder<Func<T, R>> {
        Builder::new(Func {
            function: Arc::new(function),
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

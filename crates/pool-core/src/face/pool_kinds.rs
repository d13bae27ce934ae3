//! The two kinds of pools: [`Pool`] runs closures, [`FuncPool`] one function.

use std::sync::Arc;

use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::runner::Accepts;
use crate::engine::worker_state::Stateful;
use crate::face::builder::Builder;
use crate::face::pool::{WeakWorkerPool, WorkerPool};
use crate::task::closures::{Closures, Func, Function};
use crate::task::erased::Task;
use crate::task::run::ErasedFunction;

/// A pool that runs closures. Its methods are listed at [`WorkerPool`].
///
/// [`submit`](WorkerPool::submit) takes a closure; [`spawn`](WorkerPool::spawn) also returns a handle
/// to the closure's value. Each has variants that refuse at a full pool, wait with a
/// timeout, or are async.
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
#[doc(alias = "NewPool")]
#[doc(alias = "ThreadPool")]
#[doc(alias = "ThreadPoolExecutor")]
#[doc(alias = "Executor")]
#[doc(alias = "spawn_blocking")]
#[doc(alias = "execute")]
pub type Pool = WorkerPool<Closures>;

/// Weak handle of a [`Pool`]: it does not keep the pool open.
pub type WeakPool = WeakWorkerPool<Closures>;

/// A pool that calls one function with each argument submitted. Its methods are listed at [`WorkerPool`].
///
/// [`submit`](WorkerPool::submit) takes an argument and drops the function's value;
/// [`spawn`](WorkerPool::spawn) returns a handle to it. Each has variants that refuse at a full
/// pool, wait with a timeout, or are async.
///
/// An argument of up to 56 bytes is stored in the queue without an allocation; a larger one is
/// boxed. No value of the argument has a special meaning.
///
/// The function takes its argument by value, so in a debug build a worker's stack has to hold it
/// several times. Box arguments of more than a few hundred kilobytes, or set the [stack
/// size](crate::Builder::stack_size).
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
#[doc(alias = "NewPoolWithFunc")]
#[doc(alias = "NewPoolWithFuncGeneric")]
#[doc(alias = "PoolWithFunc")]
#[doc(alias = "PoolWithFuncGeneric")]
pub type FuncPool<T, R = ()> = WorkerPool<Func<T, R>>;

/// Weak handle of a [`FuncPool`]: it does not keep the pool open.
pub type WeakFuncPool<T, R = ()> = WeakWorkerPool<Func<T, R>>;

impl Pool {
    /// Returns a builder of a pool of closures. A capacity is required.
    pub fn builder() -> Builder<Closures> {
        Builder::new(None)
    }
}

impl<T: Send + 'static, R: Send + 'static> FuncPool<T, R> {
    /// Returns a builder of a pool that calls `function`. A capacity is required.
    pub fn builder(function: impl Fn(T) -> R + Send + Sync + 'static) -> Builder<Func<T, R>> {
        Builder::new(Some(ErasedFunction::new(Function::new(function))))
    }

    /// Returns a builder of a pool whose `function` gets a per-worker state in addition to the
    /// argument: a connection, a buffer, a random number generator.
    ///
    /// `make` creates the state on the worker's thread when the worker starts (after the start
    /// hook). The state is dropped there before the worker ends (before the stop hook). So it need
    /// not be `Send`, and no two calls use the same state at the same time.
    ///
    /// ```
    /// use pool_core::FuncPool;
    /// use std::cell::RefCell;
    /// use std::rc::Rc;
    ///
    /// let lines = FuncPool::builder_with_state(
    ///     || Rc::new(RefCell::new(String::new())), // One for each worker.
    ///     |buffer, number: u32| {
    ///         let mut line = buffer.borrow_mut();
    ///         line.clear();
    ///         line.push_str(&number.to_string());
    ///         line.len()
    ///     },
    /// );
    /// let lines = lines.capacity(2).build()?;
    /// assert_eq!(lines.spawn(12_345)?.join()?, 5);
    /// assert_eq!(lines.spawn(7)?.join()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// `make` can ask for its worker with [`current()`](crate::current())`.worker()`. The worker is
    /// busy while `make` runs, as with a start hook. Each call costs two accesses of a
    /// thread-local.
    ///
    /// | event | effect on the state |
    /// |---|---|
    /// | `function` panics | it is dropped, as it may be half changed; the worker's next call makes another. To keep it, catch the panic in the function |
    /// | `make` panics when a worker starts | the panic is [counted](crate::Stats::hook_panics); the worker's next call makes a state |
    /// | `make` panics in a call | the task has panicked |
    /// | its drop panics | at a worker's end the panic is counted, and the other states are still dropped; after a panic of the function it is ignored |
    /// | a call runs inside another (a task joins an unstarted task, or submits at a full pool) | the inner call gets another state, which the worker keeps for the next such call |
    /// | a call runs on a thread that is not a worker of the pool ([`RunInCaller`](crate::OnFull::RunInCaller)) | it gets its own state, made and dropped by that call; `worker()` is then not a worker of this pool |
    /// | the worker is about to end but [stays](crate::Builder::stop_hook) | it is dropped, and another made |
    ///
    /// [`wait_released`](WorkerPool::wait_released) returns after the last state is dropped.
    #[doc(alias = "worker_state")]
    #[doc(alias = "map_init")]
    #[doc(alias = "ThreadLocal")]
    pub fn builder_with_state<S: 'static>(
        make: impl Fn() -> S + Send + Sync + 'static,
        function: impl Fn(&mut S, T) -> R + Send + Sync + 'static,
    ) -> Builder<Func<T, R>> {
        let stateful = Stateful::new(make, function);
        let states = Arc::clone(&stateful);
        Self::builder(move |argument| stateful.call(argument)).worker_state(states)
    }
}

impl<A: Admit> WorkerPool<Closures, A> {
    /// Releases the pool, removes tasks that have not started, and returns their number. Their
    /// captures are dropped on the calling thread, and their handles end with `Released`. Does not
    /// wait for running tasks.
    pub fn release_now(&self) -> usize {
        self.admit().release_now(&mut Task::release)
    }
}

impl<T: Send + 'static, R: Send + 'static, A: Admit> WorkerPool<Func<T, R>, A> {
    /// Releases the pool and returns the arguments of calls that have not started. Their handles
    /// end with `Released`. Does not wait for running calls.
    pub fn release_now(&self) -> Vec<T> {
        let mut arguments = Vec::new();
        self.admit().release_now(&mut |job| {
            let (result, body) = job.release_body();
            arguments.extend(body.map(Func::<T, R>::task_of));
            result
        });
        arguments
    }
}

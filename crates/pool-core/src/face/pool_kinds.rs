//! The two kinds of pools: of closures, and of one function.

use std::sync::Arc;

use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::worker_state::Stateful;
use crate::face::builder::Builder;
use crate::face::pool::{WeakWorkerPool, WorkerPool};
use crate::task::closures::Closures;
use crate::task::func::Func;

/// A pool that runs closures. Its methods are listed at [`WorkerPool`].
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
#[doc(alias = "NewPool")]
#[doc(alias = "ThreadPool")]
#[doc(alias = "ThreadPoolExecutor")]
#[doc(alias = "Executor")]
#[doc(alias = "spawn_blocking")]
#[doc(alias = "execute")]
pub type Pool = WorkerPool<Closures>;

/// A [`Pool`]'s handle that keeps nothing open.
pub type WeakPool = WeakWorkerPool<Closures>;

/// A pool that calls one function with each argument submitted. Its methods are listed at [`WorkerPool`].
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
#[doc(alias = "NewPoolWithFunc")]
#[doc(alias = "NewPoolWithFuncGeneric")]
#[doc(alias = "PoolWithFunc")]
#[doc(alias = "PoolWithFuncGeneric")]
pub type FuncPool<T, R = ()> = WorkerPool<Func<T, R>>;

/// A [`FuncPool`]'s handle that keeps nothing open.
pub type WeakFuncPool<T, R = ()> = WeakWorkerPool<Func<T, R>>;

impl Pool {
    /// Sets a pool of closures up. A capacity has to be said.
    pub fn builder() -> Builder<Closures> {
        Builder::new(Closures(()))
    }
}

impl<T: Send + 'static, R: Send + 'static> FuncPool<T, R> {
    /// Sets a pool of `function` up. A capacity has to be said.
    pub fn builder(function: impl Fn(T) -> R + Send + Sync + 'static) -> Builder<Func<T, R>> {
        Builder::new(Func::new(function))
    }

    /// Sets a pool up whose `function` gets a state of its worker beside the argument: a connection, a
    /// buffer, a random number generator. `make` makes it, on the worker's thread as that starts (after
    /// the start hook), and it is dropped there before the worker ends (before the stop hook). So it
    /// need not be `Send`, and of two calls never both have the same one.
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
    /// `make` knows its worker by [`current()`](crate::current())`.worker()`. While it takes its time
    /// the worker is busy, as with a start hook. Costs two accesses of a thread-local for each call.
    ///
    /// | what happens | what becomes of the state |
    /// |---|---|
    /// | `function` panics | it is dropped, as it may be half changed; the worker's next call makes another. A function that is to keep it catches the panic |
    /// | `make` panics as a worker starts | [counted](crate::Stats::hook_panics); the worker's next call makes one |
    /// | `make` panics in a call | that task has panicked |
    /// | its drop panics | counted at a worker's end, and the others are dropped all the same. After a panic of the function it is ignored |
    /// | a call runs inside another (a task that joins one which has not started, or submits at a full pool) | the inner call gets another, which the worker keeps for the next such call |
    /// | a call runs on a thread that is no worker of the pool ([`RunInCaller`](crate::OnFull::RunInCaller)) | it gets one of its own, made and dropped with it, there; `worker()` is then not this pool's |
    /// | the worker is to end, but [stays](crate::Builder::stop_hook) | it is dropped, and another made |
    ///
    /// [`wait_released`](WorkerPool::wait_released) returns after the last one is gone.
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

impl<A: Admit<Closures>> WorkerPool<Closures, A> {
    /// Releases, and takes out the tasks that have not started: their number. What they captured
    /// is dropped on this thread, and their handles end with `Released`. Does not wait for
    /// running tasks.
    pub fn release_now(&self) -> usize {
        self.admit().release_now(&mut |()| {})
    }
}

impl<T: Send + 'static, R: Send + 'static, A: Admit<Func<T, R>>> WorkerPool<Func<T, R>, A> {
    /// Releases, and takes out the arguments that have not been called with. Their handles end
    /// with `Released`. Does not wait for running tasks.
    pub fn release_now(&self) -> Vec<T> {
        let mut items = Vec::new();
        self.admit().release_now(&mut |item| items.push(item));
        items
    }
}

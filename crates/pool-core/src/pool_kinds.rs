//! The two kinds of pools: of closures, and of one function.

use std::sync::Arc;

use crate::builder::Builder;
use crate::pool::{WeakWorkerPool, WorkerPool};
use crate::task::closures::Closures;
use crate::task::func::Func;

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

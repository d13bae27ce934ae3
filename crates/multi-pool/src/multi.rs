//! The multi-pool types, and the calls that a single pool does not have.

use pool_core::internals::{AdmitHandle, PoolHandle};
use pool_core::{Closures, Func, ReserveFuture, Runner, Stats, WeakWorkerPool, WorkerPool};

use crate::error::IndexError;
use crate::shared::Shared;

/// Several pools behind one handle. [`MultiPool`] and [`MultiFuncPool`] are aliases of it. It has the methods
/// of [`WorkerPool`] and [`MultiPoolExt`]; the [crate documentation](crate) lists the differences from a
/// single pool.
///
/// Dropping the last handle releases all pools, as their [`DropPolicy`](pool_core::DropPolicy) says.
///
/// ```
/// use multi_pool::{MultiBuilder, MultiFuncPool, MultiPool, MultiPoolExt};
/// use pool_core::{FuncPool, Pool};
///
/// let closures = MultiBuilder::new(Pool::builder().capacity(2)).pools(4).build()?;
/// assert_eq!(closures.spawn(|| 6 * 7)?.join()?, 42);
/// let lengths = FuncPool::builder(|text: &str| text.len()).capacity(2);
/// let lengths = MultiBuilder::new(lengths).pools(4).build()?;
/// assert_eq!(lengths.spawn("one function")?.join()?, 12);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub type MultiWorkerPool<R> = WorkerPool<R, Shared>;

/// Handle of a [`MultiWorkerPool`] that does not keep it open.
pub type WeakMultiWorkerPool<R> = WeakWorkerPool<R, Shared>;

/// Future of a permit, returned by [`WorkerPool::reserve_async`].
pub type MultiReserveFuture<R> = ReserveFuture<R, Shared>;

/// Several pools of closures behind one handle. Made by a [`MultiBuilder`](crate::MultiBuilder).
///
/// ```
/// use multi_pool::MultiBuilder;
/// use pool_core::Pool;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
///
/// let pool = MultiBuilder::new(Pool::builder().capacity(2)).pools(4).build()?;
/// let sum = Arc::new(AtomicU64::new(0));
/// for number in 0..1000 {
///     let sum = Arc::clone(&sum);
///     // Blocks while all eight workers are busy.
///     pool.submit(move || _ = sum.fetch_add(number, Ordering::Relaxed))?;
/// }
/// pool.wait_idle()?;
/// assert_eq!(sum.load(Ordering::Relaxed), 499_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "NewMultiPool")]
pub type MultiPool = MultiWorkerPool<Closures>;

/// Handle of a [`MultiPool`] that does not keep it open.
pub type WeakMultiPool = WeakMultiWorkerPool<Closures>;

/// Several pools of one function behind one handle. Made by a [`MultiBuilder`](crate::MultiBuilder).
///
/// ```
/// use multi_pool::MultiBuilder;
/// use pool_core::FuncPool;
///
/// let each = FuncPool::builder(|n: u64| n * n).capacity(1).queue_depth(100);
/// let squares = MultiBuilder::new(each).pools(2).build()?;
/// let handles: Vec<_> = (1..=10).map(|n| squares.spawn(n)).collect::<Result<_, _>>()?;
/// let mut sum = 0;
/// for handle in handles {
///     sum += handle.join()?;
/// }
/// assert_eq!(sum, 385);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "NewMultiPoolWithFunc")]
#[doc(alias = "NewMultiPoolWithFuncGeneric")]
#[doc(alias = "MultiPoolWithFunc")]
#[doc(alias = "MultiPoolWithFuncGeneric")]
pub type MultiFuncPool<T, R = ()> = MultiWorkerPool<Func<T, R>>;

/// Handle of a [`MultiFuncPool`] that does not keep it open.
pub type WeakMultiFuncPool<T, R = ()> = WeakMultiWorkerPool<Func<T, R>>;

/// Calls that a single pool does not have: the statistics of each member.
pub trait MultiPoolExt<R: Runner>: AdmitHandle<Runner = R, Admit = Shared> + Sized {
    /// Returns the members, at least one. They are released, rebooted and tuned together.
    ///
    /// For `scheduled-pool`, and **exempt from semantic versioning**, like [`internals`](pool_core::internals).
    fn members(&self) -> &[PoolHandle] {
        &self.admit().members
    }

    /// Returns the number of members.
    ///
    /// ```
    /// use multi_pool::{MultiBuilder, MultiPoolExt};
    /// use pool_core::Pool;
    ///
    /// let pool = MultiBuilder::new(Pool::builder().capacity(2)).pools(2).build()?;
    /// assert_eq!((pool.pools(), pool.capacity().limit()), (2, Some(4)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    fn pools(&self) -> usize {
        self.members().len()
    }

    /// Returns the number of live workers of one member, including idle ones.
    ///
    /// # Errors
    /// If the index is out of range.
    #[doc(alias = "RunningByIndex")]
    fn running_of(&self, index: usize) -> Result<usize, IndexError> {
        member(self, index).map(PoolHandle::live)
    }

    /// Returns the number of workers that one member could still start; `None` if it is unlimited.
    ///
    /// # Errors
    /// If the index is out of range.
    #[doc(alias = "FreeByIndex")]
    fn free_of(&self, index: usize) -> Result<Option<usize>, IndexError> {
        member(self, index).map(PoolHandle::free)
    }

    /// Returns the length of one member's wait queue. Each waiter is in the queues of all members until it
    /// wakes after one of them has taken its task.
    ///
    /// # Errors
    /// If the index is out of range.
    #[doc(alias = "WaitingByIndex")]
    fn waiting_of(&self, index: usize) -> Result<usize, IndexError> {
        member(self, index).map(PoolHandle::waiting)
    }

    /// Returns the statistics of one member.
    ///
    /// - `refused` counts only waiters that the member refused in a release. Other refusals are counted by
    ///   the multi-pool.
    /// - Tasks that a nested submit runs in place are counted by member 0.
    /// - A task that is cancelled or joined in place is counted by the member that had accepted it.
    ///
    /// ```
    /// # use multi_pool::{MultiBuilder, MultiPoolExt};
    /// # use pool_core::Pool;
    /// # let pool = MultiBuilder::new(Pool::builder().capacity(2)).pools(2).build()?;
    /// use multi_pool::IndexError;
    ///
    /// assert_eq!(pool.stats_of(1)?.live, 0);
    /// assert_eq!(pool.stats_of(2), Err(IndexError { index: 2, pools: 2 }));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// If the index is out of range.
    fn stats_of(&self, index: usize) -> Result<Stats, IndexError> {
        member(self, index).map(PoolHandle::stats)
    }
}

impl<R: Runner> MultiPoolExt<R> for MultiWorkerPool<R> {}

fn member<R: Runner>(pool: &impl MultiPoolExt<R>, index: usize) -> Result<&PoolHandle, IndexError> {
    let pools = pool.pools();
    let member = pool.members().get(index);
    member.ok_or(IndexError { index, pools })
}

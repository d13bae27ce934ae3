//! Several pools as one [`WorkerPool`], and what is asked of its single pools.

use std::borrow::Borrow;
use std::hash::{Hash, RandomState};

use pool_core::internals::{AdmitHandle, PoolHandle};
use pool_core::{
    Builder, Closures, Func, ReserveFuture, Runner, Stats, WeakWorkerPool, WorkerPool,
};

use crate::builder::MultiBuilder;
use crate::error::IndexError;
use crate::keyed::MultiKeyed;
use crate::shared::Shared;

/// Several pools behind one handle, as both [`MultiPool`] and [`MultiFuncPool`] are. Its methods are
/// those of [`WorkerPool`], and [`MultiPoolExt`]'s.
///
/// Figures are sums over the pools, each pool's taken at an instant of its own: exact at rest.
/// Releases, reboots and tunings are of all pools. The last handle's drop releases all pools as their
/// [`DropPolicy`](pool_core::DropPolicy) says.
///
/// ```
/// use multi_pool::{MultiFuncPool, MultiPool, MultiPoolExt};
/// use pool_core::{FuncPool, Pool};
///
/// let closures = MultiPool::builder(Pool::builder().capacity(2)).pools(4).build()?;
/// assert_eq!(closures.spawn(|| 6 * 7)?.join()?, 42);
/// let lengths = FuncPool::builder(|text: &str| text.len()).capacity(2);
/// let lengths = MultiFuncPool::builder(lengths).pools(4).build()?;
/// assert_eq!(lengths.spawn("one function")?.join()?, 12);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub type MultiWorkerPool<R> = WorkerPool<R, Shared<R>>;

/// A [`MultiWorkerPool`]'s handle that keeps nothing open.
pub type WeakMultiWorkerPool<R> = WeakWorkerPool<R, Shared<R>>;

/// Resolves to a permit: see [`WorkerPool::reserve_async`].
pub type MultiReserveFuture<R> = ReserveFuture<R, Shared<R>>;

/// Several pools of closures behind one handle.
///
/// ```
/// use multi_pool::{MultiPool, MultiPoolExt};
/// use pool_core::Pool;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
///
/// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(4).build()?;
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

/// A [`MultiPool`]'s handle that keeps nothing open.
pub type WeakMultiPool = WeakMultiWorkerPool<Closures>;

/// Several pools of one function behind one handle.
///
/// ```
/// use multi_pool::{MultiFuncPool, MultiPoolExt};
/// use pool_core::FuncPool;
///
/// let each = FuncPool::builder(|n: u64| n * n).capacity(1).queue_depth(100);
/// let squares = MultiFuncPool::builder(each).pools(2).build()?;
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

/// A [`MultiFuncPool`]'s handle that keeps nothing open.
pub type WeakMultiFuncPool<T, R = ()> = WeakMultiWorkerPool<Func<T, R>>;

/// Building a multi-pool, and the figures of its single pools.
pub trait MultiPoolExt<R: Runner>: AdmitHandle<Runner = R, Admit = Shared<R>> + Sized {
    /// Sets a multi-pool up whose pools are each built as `each` says.
    fn builder(each: Builder<R>) -> MultiBuilder<R> {
        MultiBuilder::new(each)
    }

    /// The pools that it is made of, at least one; they are released, rebooted and tuned together.
    ///
    /// For `scheduled-pool`, and **exempt from semantic versioning**, as
    /// [`internals`](pool_core::internals) is.
    fn members(&self) -> &[PoolHandle<R>] {
        &self.admit().members
    }

    /// Number of pools.
    ///
    /// ```
    /// use multi_pool::{MultiPool, MultiPoolExt};
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// assert_eq!((pool.pools(), pool.capacity().limit()), (2, Some(4)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    fn pools(&self) -> usize {
        self.members().len()
    }

    /// Tasks with keys: see [`MultiKeyed`].
    ///
    /// ```
    /// use multi_pool::{MultiPool, MultiPoolExt};
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// let accounts = pool.keyed::<u32>();
    /// let first = accounts.spawn(7, || "debit")?;
    /// let second = accounts.spawn(7, || "credit")?; // Not before the first has ended.
    /// assert_eq!((first.join()?, second.join()?), ("debit", "credit"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    fn keyed<K: Hash + Eq + Send + 'static>(&self) -> MultiKeyed<K>
    where
        Self: Borrow<MultiPool>,
    {
        MultiKeyed::with_hasher(self.borrow(), RandomState::new())
    }

    /// Live workers of one pool, idle ones included.
    ///
    /// # Errors
    /// If there is no such pool.
    #[doc(alias = "RunningByIndex")]
    fn running_of(&self, index: usize) -> Result<usize, IndexError> {
        member(self, index).map(PoolHandle::live)
    }

    /// Workers that one pool could still start; `None` if it is unlimited.
    ///
    /// # Errors
    /// If there is no such pool.
    #[doc(alias = "FreeByIndex")]
    fn free_of(&self, index: usize) -> Result<Option<usize>, IndexError> {
        member(self, index).map(PoolHandle::free)
    }

    /// Places taken in one pool's wait queue. Each waiter has one in every pool's, and gives the
    /// others up once it wakes because one of the pools has taken its task.
    ///
    /// # Errors
    /// If there is no such pool.
    #[doc(alias = "WaitingByIndex")]
    fn waiting_of(&self, index: usize) -> Result<usize, IndexError> {
        member(self, index).map(PoolHandle::waiting)
    }

    /// One pool's figures. Its `refused` are only the waiters it gave back in a release: other
    /// refusals are counted for the multi-pool alone. What a nested submit runs in place is counted in pool 0; a task that
    /// is cancelled, or joined in place, in the pool that had accepted it.
    ///
    /// ```
    /// # use multi_pool::{MultiPool, MultiPoolExt};
    /// # use pool_core::Pool;
    /// # let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// use multi_pool::IndexError;
    ///
    /// assert_eq!(pool.stats_of(1)?.live, 0);
    /// assert_eq!(pool.stats_of(2), Err(IndexError { index: 2, pools: 2 }));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such pool.
    fn stats_of(&self, index: usize) -> Result<Stats, IndexError> {
        member(self, index).map(PoolHandle::stats)
    }
}

impl<R: Runner> MultiPoolExt<R> for MultiWorkerPool<R> {}

fn member<R: Runner>(
    pool: &impl MultiPoolExt<R>,
    index: usize,
) -> Result<&PoolHandle<R>, IndexError> {
    let pools = pool.pools();
    let member = pool.members().get(index);
    member.ok_or(IndexError { index, pools })
}

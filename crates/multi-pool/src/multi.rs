//! The handle of a multi-pool: what those of closures and of one function have in common.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pool_core::internals::PoolHandle;
use pool_core::{Capacity, OnFull, Runner, Stats, TuneError, WorkerPool};

use crate::error::{IndexError, MultiWaitError};
use crate::shared::Shared;

/// Several pools behind one face, as both [`MultiPool`](crate::MultiPool) and
/// [`MultiFuncPool`](crate::MultiFuncPool) are.
///
/// A handle: cloning it is cheap, clones are the same multi-pool, and the last one's drop releases
/// all pools as their [`DropPolicy`](pool_core::DropPolicy) says.
///
/// Figures are sums over the pools, each pool's taken at an instant of its own: exact at rest.
///
/// ```
/// use multi_pool::{MultiFuncPool, MultiPool};
/// use pool_core::{FuncPool, Pool};
///
/// let closures = MultiPool::builder(Pool::builder().capacity(2)).pools(4).build()?;
/// assert_eq!(closures.spawn(|| 6 * 7)?.join()?, 42);
/// let lengths = FuncPool::builder(|text: &str| text.len()).capacity(2);
/// let lengths = MultiFuncPool::builder(lengths).pools(4).build()?;
/// assert_eq!(lengths.spawn("one function")?.join()?, 12);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct MultiWorkerPool<R: Runner>(Arc<Owner<R>>);

/// Counted by the handles alone: waiting futures hold what is shared.
struct Owner<R: Runner> {
    shared: Arc<Shared<R>>,
    /// Dropped as their drop policy says, after all of them have been released: so no pool waits for
    /// its end while another still accepts tasks.
    pools: Box<[WorkerPool<R>]>,
}

impl<R: Runner> Drop for Owner<R> {
    fn drop(&mut self) {
        if self.shared.first().process().is_current() {
            self.shared.release();
        }
    }
}

impl<R: Runner> MultiWorkerPool<R> {
    pub(crate) fn new(pools: Box<[WorkerPool<R>]>, shared: Arc<Shared<R>>) -> Self {
        Self(Arc::new(Owner { shared, pools }))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<R>> {
        &self.0.shared
    }

    /// What `submit` and `spawn` do if every pool is full.
    pub(crate) fn on_full(&self) -> OnFull {
        self.shared().first().on_full()
    }

    pub(crate) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.shared().first().clock().after(timeout)
    }

    /// A handle like this one, whichever kind of pools it is of.
    pub(crate) fn keep_open(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.0) as _
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &WorkerPool<R>> {
        self.0.pools.iter()
    }

    fn pool(&self, index: usize) -> Result<&WorkerPool<R>, IndexError> {
        self.0.pools.get(index).ok_or(IndexError {
            index,
            pools: self.pools(),
        })
    }

    /// The pools that it is made of, at least one; they are released, rebooted and tuned together.
    ///
    /// For `scheduled-pool`, and **exempt from semantic versioning**, as
    /// [`internals`](pool_core::internals) is.
    pub fn members(&self) -> &[PoolHandle<R>] {
        &self.shared().members
    }

    /// The name; each pool's is this one with its index.
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// How many pools there are.
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// assert_eq!((pool.pools(), pool.capacity().limit()), (2, Some(4)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn pools(&self) -> usize {
        self.0.pools.len()
    }

    /// Live workers, idle ones included.
    #[doc(alias = "Running")]
    pub fn running(&self) -> usize {
        self.each().map(WorkerPool::running).sum()
    }

    /// Live workers of one pool, idle ones included.
    ///
    /// # Errors
    /// If there is no such pool.
    #[doc(alias = "RunningByIndex")]
    pub fn running_of(&self, index: usize) -> Result<usize, IndexError> {
        self.pool(index).map(WorkerPool::running)
    }

    /// Workers that could still be started; `None` if the pools are unlimited.
    #[doc(alias = "Free")]
    pub fn free(&self) -> Option<usize> {
        self.each()
            .try_fold(0_usize, |sum, pool| Some(sum.saturating_add(pool.free()?)))
    }

    /// Workers that one pool could still start; `None` if it is unlimited.
    ///
    /// # Errors
    /// If there is no such pool.
    #[doc(alias = "FreeByIndex")]
    pub fn free_of(&self, index: usize) -> Result<Option<usize>, IndexError> {
        self.pool(index).map(WorkerPool::free)
    }

    /// Threads and futures that wait for room, each counted once.
    #[doc(alias = "Waiting")]
    pub fn waiting(&self) -> usize {
        self.shared().waiter_count.len()
    }

    /// Places taken in one pool's wait queue. Each waiter has one in every pool's, and gives the
    /// others up once it wakes because one of the pools has taken its task.
    ///
    /// # Errors
    /// If there is no such pool.
    #[doc(alias = "WaitingByIndex")]
    pub fn waiting_of(&self, index: usize) -> Result<usize, IndexError> {
        self.pool(index).map(WorkerPool::waiting)
    }

    /// The most live workers there may be. A sum too large for a number is no limit.
    #[doc(alias = "Cap")]
    pub fn capacity(&self) -> Capacity {
        self.each()
            .map(WorkerPool::capacity)
            .fold(Capacity::Limited(0), Capacity::plus)
    }

    /// Workers that hold a task.
    pub fn busy(&self) -> usize {
        self.each().map(WorkerPool::busy).sum()
    }

    /// Live workers that hold none.
    pub fn idle(&self) -> usize {
        self.each().map(WorkerPool::idle).sum()
    }

    /// Accepted tasks that have not started.
    pub fn queued(&self) -> usize {
        self.each().map(WorkerPool::queued).sum()
    }

    /// Accepted tasks that have not ended.
    pub fn in_flight(&self) -> usize {
        self.each().map(WorkerPool::in_flight).sum()
    }

    /// All figures; see [`Stats::plus`].
    ///
    /// ```
    /// # use multi_pool::MultiPool;
    /// # use pool_core::Pool;
    /// # let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// pool.spawn(|| ())?.join()?;
    /// assert_eq!(pool.stats().completed, 1); // Over all pools.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Panics
    /// Never: there is at least one pool.
    pub fn stats(&self) -> Stats {
        let sum = self.each().map(WorkerPool::stats).reduce(Stats::plus);
        let mut stats = sum.expect("there is at least one pool");
        stats.waiting = self.waiting();
        stats.refused += self.shared().refused();
        stats
    }

    /// One pool's figures. Its `refused` are only the waiters it gave back in a release: other
    /// refusals are counted for the multi-pool alone. What a nested submit runs in place is counted in pool 0; a task that
    /// is cancelled, or joined in place, in the pool that had accepted it.
    ///
    /// ```
    /// # use multi_pool::MultiPool;
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
    pub fn stats_of(&self, index: usize) -> Result<Stats, IndexError> {
        self.pool(index).map(WorkerPool::stats)
    }

    /// Whether the pools have been released (and not rebooted since).
    #[doc(alias = "IsClosed")]
    pub fn is_released(&self) -> bool {
        let _alike = self.shared().lifecycle_lock.lock();
        self.0.pools[0].is_released()
    }

    /// Whether the calling thread is a worker of any of the pools.
    pub fn is_own_worker(&self) -> bool {
        self.0.pools[0].is_own_worker()
    }

    /// Changes each pool's capacity, at any time, as [`WorkerPool::tune`] does.
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// pool.tune(8)?; // Each of the two pools.
    /// assert_eq!(pool.capacity().limit(), Some(16));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// For a capacity of zero, and for an unlimited one if the pools are preallocated: then
    /// nothing has changed. If there is no memory for a larger ring, the pools before that one are
    /// tuned.
    #[doc(alias = "Tune")]
    pub fn tune(&self, capacity: impl Into<Capacity>) -> Result<(), TuneError> {
        self.shared().tune(capacity.into())
    }

    /// Accepts nothing from now on, in any pool. `false` if that was done before. Does not block.
    ///
    /// Waiting tasks come back to their submitters; accepted tasks still run.
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// pool.submit(|| println!("the last one"))?;
    /// assert!(pool.release()); // All pools. What was accepted still runs.
    /// assert!(pool.submit(|| ()).is_err_and(|refused| refused.is_released()));
    /// pool.wait_released()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "Release")]
    pub fn release(&self) -> bool {
        self.shared().release().0
    }

    /// Releases all pools, and waits for the end of all, at most for so long altogether.
    ///
    /// May be called again after a time-out, and by several threads.
    ///
    /// # Errors
    /// See [`MultiWaitError`]. The pools are released all the same.
    #[doc(alias = "ReleaseTimeout")]
    pub fn release_timeout(&self, timeout: Duration) -> Result<(), MultiWaitError> {
        self.release_until(self.deadline(timeout))
    }

    /// Releases all pools, and waits for the end of all, at most until then.
    ///
    /// # Errors
    /// See [`MultiWaitError`]. The pools are released all the same.
    pub fn release_deadline(&self, deadline: Instant) -> Result<(), MultiWaitError> {
        self.release_until(Some(deadline))
    }

    pub(crate) fn release_until(&self, deadline: Option<Instant>) -> Result<(), MultiWaitError> {
        let (_, generations) = self.shared().release();
        self.shared().wait_for_end(&generations, deadline)
    }

    /// Waits until every pool has ended, as [`WorkerPool::wait_released`] does for one.
    ///
    /// # Errors
    /// See [`MultiWaitError`].
    pub fn wait_released(&self) -> Result<(), MultiWaitError> {
        self.wait_released_until(None)
    }

    /// Waits for the end as [`wait_released`](Self::wait_released) does, at most for so long
    /// altogether.
    ///
    /// # Errors
    /// See [`MultiWaitError`].
    pub fn wait_released_timeout(&self, timeout: Duration) -> Result<(), MultiWaitError> {
        self.wait_released_until(self.deadline(timeout))
    }

    /// Waits for the end as [`wait_released`](Self::wait_released) does, at most until then.
    ///
    /// # Errors
    /// See [`MultiWaitError`].
    pub fn wait_released_deadline(&self, deadline: Instant) -> Result<(), MultiWaitError> {
        self.wait_released_until(Some(deadline))
    }

    pub(crate) fn wait_released_until(
        &self,
        deadline: Option<Instant>,
    ) -> Result<(), MultiWaitError> {
        let generations = self.shared().generations();
        self.shared().wait_for_end(&generations, deadline)
    }

    /// Waits until there is an instant at which nothing is in flight in any pool.
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// for number in 0..10 {
    ///     pool.submit(move || println!("{number}"))?;
    /// }
    /// pool.wait_idle()?; // All ten have run, in whichever pool.
    /// assert_eq!(pool.stats().completed, 10);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// See [`MultiWaitError`].
    pub fn wait_idle(&self) -> Result<(), MultiWaitError> {
        self.shared().wait_idle(None)
    }

    /// Waits for rest as [`wait_idle`](Self::wait_idle) does, at most for so long altogether.
    ///
    /// # Errors
    /// See [`MultiWaitError`].
    pub fn wait_idle_timeout(&self, timeout: Duration) -> Result<(), MultiWaitError> {
        self.shared().wait_idle(self.deadline(timeout))
    }

    /// Waits for rest as [`wait_idle`](Self::wait_idle) does, at most until then.
    ///
    /// # Errors
    /// See [`MultiWaitError`].
    pub fn wait_idle_deadline(&self, deadline: Instant) -> Result<(), MultiWaitError> {
        self.shared().wait_idle(Some(deadline))
    }

    /// Opens the released pools again, at any time; `false` if they are open. The strategy begins
    /// as at first.
    #[doc(alias = "Reboot")]
    pub fn reboot(&self) -> bool {
        self.shared().reboot()
    }

    /// Lets no queued task start in any of the pools, as
    /// [`WorkerPool::pause`](pool_core::WorkerPool::pause) does. `false` if that is so already, or
    /// the pools are released.
    pub fn pause(&self) -> bool {
        self.shared().pause()
    }

    /// Lets queued tasks start again. `false` if the pools are not [paused](Self::pause).
    pub fn resume(&self) -> bool {
        self.shared().resume()
    }

    /// Whether the pools are [paused](Self::pause).
    pub fn is_paused(&self) -> bool {
        self.shared().first().is_paused()
    }

    /// A handle that does not keep the pools open, e.g. for a task that submits itself again.
    pub fn downgrade(&self) -> WeakMultiWorkerPool<R> {
        WeakMultiWorkerPool(Arc::downgrade(&self.0))
    }
}

impl<R: Runner> Clone for MultiWorkerPool<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Runner> fmt::Debug for MultiWorkerPool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiWorkerPool")
            .field("name", &self.name())
            .field("pools", &self.pools())
            .field("stats", &self.stats())
            .finish()
    }
}

/// A multi-pool's handle that keeps nothing open. See [`MultiWorkerPool::downgrade`].
pub struct WeakMultiWorkerPool<R: Runner>(Weak<Owner<R>>);

impl<R: Runner> WeakMultiWorkerPool<R> {
    /// The multi-pool, if another handle still keeps it.
    pub fn upgrade(&self) -> Option<MultiWorkerPool<R>> {
        self.0.upgrade().map(MultiWorkerPool)
    }
}

impl<R: Runner> Clone for WeakMultiWorkerPool<R> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

impl<R: Runner> fmt::Debug for WeakMultiWorkerPool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakMultiWorkerPool(..)")
    }
}

//! The pool handle, common to pools of closures and of one function.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Instant;

use sync_shim::Timeout;

use crate::config::{Capacity, OnFull};
use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::engine::wait::Awaited;
use crate::error::TuneError;
use crate::sister::pool_handle::PoolHandle;
use crate::stats::Stats;
use crate::task::handle::Open;

/// A bounded, elastic pool of worker threads. [`Pool`](crate::Pool) and
/// [`FuncPool`](crate::FuncPool) are aliases of this type.
///
/// The pool runs tasks of every type that its runner [accepts](crate::Accepts).
///
/// This is a handle: clones are cheap and refer to the same pool. Dropping the last one releases
/// the pool according to its [`DropPolicy`](crate::DropPolicy).
///
/// ```
/// use pool_core::{FuncPool, Pool};
///
/// let closures = Pool::builder().capacity(4).build()?; // `WorkerPool<Closures>`
/// closures.submit(|| println!("any closure"))?;
/// let lengths = FuncPool::builder(|text: &str| text.len()).capacity(4).build()?;
/// assert_eq!(lengths.spawn("one function")?.join()?, 12);
/// closures.wait_idle()?;
/// assert!(closures.release() && lengths.release());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// `A` is the admission: one pool, or several pools behind one handle (`multi_pool::MultiPool`).
/// Functions that take any kind of pool are generic over both: `impl<R: Runner, A: Admit>`.
pub struct WorkerPool<R: Runner, A: Admit = Core>(Arc<Owner<R, A>>);

/// Reference-counted by the user's handles only: workers, join handles and waiting futures hold the
/// admission instead, so that they do not delay the end of the pool.
struct Owner<R: Runner, A: Admit> {
    admit: Arc<A>,
    // Of a function, so that the handle is `Send` and `Sync` for every runner.
    runs: PhantomData<fn() -> R>,
}

impl<R: Runner, A: Admit> Drop for Owner<R, A> {
    fn drop(&mut self) {
        self.admit.end();
    }
}

impl<R: Runner> WorkerPool<R> {
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.admit
    }
}

impl PoolHandle {
    /// Returns the handle of a pool.
    pub fn of<R: Runner>(pool: &WorkerPool<R>) -> Self {
        Self(Arc::clone(pool.core()))
    }
}

impl<R: Runner, A: Admit> AdmitHandle for WorkerPool<R, A> {
    type Runner = R;
    type Admit = A;
    fn admit(&self) -> &Arc<A> {
        &self.0.admit
    }
}

impl<R: Runner, A: Admit> WorkerPool<R, A> {
    /// Creates the first handle.
    #[doc(hidden)]
    pub fn of(admit: Arc<A>) -> Self {
        let runs = PhantomData;
        Self(Arc::new(Owner { admit, runs }))
    }

    /// Clones the handle with its type erased.
    pub(crate) fn keep_open(&self) -> Open {
        Arc::clone(&self.0) as Open
    }

    #[inline]
    pub(crate) fn on_full(&self) -> OnFull {
        self.admit().on_full()
    }

    pub(crate) fn deadline(&self, timeout: impl Into<Timeout>) -> Option<Instant> {
        timeout.into().deadline(self.admit().clock())
    }

    /// Returns the pool's name.
    pub fn name(&self) -> &str {
        self.admit().name()
    }

    /// Returns the number of live workers, including idle ones.
    #[doc(alias = "Running")]
    pub fn running(&self) -> usize {
        self.admit().sum(PoolHandle::live)
    }

    /// Returns the number of workers that can still be started: capacity minus live workers, never negative;
    /// `None` if unlimited.
    #[doc(alias = "Free")]
    pub fn free(&self) -> Option<usize> {
        self.admit().free()
    }

    /// Returns the number of threads and futures that wait for room, plus due tasks of a scheduled pool, and mappings
    /// and scopes.
    #[doc(alias = "Waiting")]
    pub fn waiting(&self) -> usize {
        self.admit().waiting()
    }

    /// Returns the maximum number of live workers.
    #[doc(alias = "Cap")]
    pub fn capacity(&self) -> Capacity {
        self.admit().capacity()
    }

    /// Returns the number of workers that run a task or other user code: see [`Stats::busy`].
    pub fn busy(&self) -> usize {
        self.stats().busy
    }

    /// Returns the number of live workers that run no user code.
    pub fn idle(&self) -> usize {
        self.stats().idle
    }

    /// Returns the number of accepted tasks that have not started.
    pub fn queued(&self) -> usize {
        self.admit().sum(PoolHandle::queued)
    }

    /// Returns the number of accepted tasks that have not ended.
    pub fn in_flight(&self) -> usize {
        self.admit().sum(PoolHandle::in_flight)
    }

    /// Returns a snapshot of the statistics at one instant.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// pool.spawn(|| ())?.join()?;
    /// let stats = pool.stats();
    /// assert_eq!((stats.submitted, stats.completed, stats.in_flight), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.admit().stats()
    }

    /// Returns whether the pool is released (and has not been rebooted since).
    #[doc(alias = "IsClosed")]
    pub fn is_released(&self) -> bool {
        self.admit().is_released()
    }

    /// Stops starting queued tasks until the pool is [resumed](Self::resume). Returns `false` if it
    /// is already paused, or released. Does not block.
    ///
    /// Running tasks are not interrupted, and a task that a worker has just taken still runs. The
    /// pool accepts tasks until it is full. Workers park and expire as usual, but the last one
    /// stays while a task is queued.
    ///
    /// | in a paused pool | |
    /// |---|---|
    /// | a running task joins an unstarted one, or submits while the pool is full | it runs the other task in place, as a part of itself |
    /// | a caller under [`OnFull::RunInCaller`](crate::OnFull::RunInCaller) | waits for room: no new task starts |
    /// | `wait_idle`; a mapping with queued pieces | wait until the pool is resumed |
    /// | a running mapping or scope | its drain tasks end their turns; the caller's own thread continues |
    /// | tasks of a key | the next one waits in the queue |
    /// | `tune`, `cancel` | as usual |
    /// | `release`; the drop of the last handle | resume the pool: accepted tasks run (`release_now` and `DropPolicy::Discard` drop them) |
    /// | `reboot` | the pool is no longer paused |
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).queue_depth(10).build()?;
    /// assert!(pool.pause() && pool.is_paused());
    /// let answer = pool.spawn(|| 6 * 7)?;
    /// assert_eq!(pool.queued(), 1);
    /// assert!(pool.resume());
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Modelled on the `PausableThreadPoolExecutor` in Java's documentation.
    #[doc(alias = "suspend")]
    pub fn pause(&self) -> bool {
        self.admit().pause()
    }

    /// Starts queued tasks again. Returns `false` if the pool is not [paused](Self::pause).
    pub fn resume(&self) -> bool {
        self.admit().resume()
    }

    /// Returns whether the pool is [paused](Self::pause).
    pub fn is_paused(&self) -> bool {
        self.admit().is_paused()
    }

    /// Changes the capacity.
    ///
    /// If it grows, waiting callers are accepted immediately, first come, first served. If it
    /// shrinks, excess idle workers end immediately and busy ones after their task; a thread that
    /// is being started at that moment ends as soon as it has started.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// pool.tune(8)?; // More workers for the rush hour.
    /// assert_eq!(pool.free(), Some(8));
    /// assert!(pool.tune(0).is_err());
    /// assert_eq!(pool.capacity().limit(), Some(8));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// If the capacity is zero, or unlimited while the pool is preallocated.
    #[doc(alias = "Tune")]
    pub fn tune(&self, capacity: impl Into<Capacity>) -> Result<(), TuneError> {
        self.admit().tune(capacity.into())
    }

    /// Stops accepting tasks. Returns `false` if the pool is already released. Does not block.
    ///
    /// Waiting callers get their tasks back. Accepted tasks still run. Idle workers end
    /// immediately, the others when no task is left.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let answer = pool.spawn(|| 42)?;
    /// assert!(pool.release());
    /// assert!(pool.submit(|| ()).is_err_and(|refused| refused.is_released()));
    /// assert_eq!(answer.join()?, 42); // It was accepted before.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "Release")]
    pub fn release(&self) -> bool {
        self.admit().release()
    }

    /// Releases the pool and waits for its end with a timeout. The timeout does not apply to
    /// destructors of thread-locals of threads that are ending.
    ///
    /// Can be called again after a timeout, and by several threads.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// use std::time::Duration;
    ///
    /// pool.submit(|| println!("the last one"))?;
    /// pool.release_timeout(Duration::from_secs(60))?; // It has run, and the threads are gone.
    /// assert_eq!(pool.running(), 0);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// See [`WaitError`](crate::WaitError). The pool stays released after an error.
    #[doc(alias = "ReleaseTimeout")]
    #[doc(alias = "ReleaseContext")]
    pub fn release_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::Release, self.deadline(timeout))
    }

    /// Waits until the pool has ended: it is released (by any thread), no task is in flight, every
    /// worker's thread has exited, and all panic hooks have returned.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let here = pool.clone();
    /// std::thread::spawn(move || here.release());
    /// pool.wait_released()?;
    /// assert_eq!((pool.running(), pool.stats().ending), (0, 0));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::WaitError::WouldDeadlock) on an own worker,
    /// [`Rebooted`](crate::WaitError::Rebooted) if the pool is rebooted first.
    pub fn wait_released(&self) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::End, None)
    }

    /// Like [`wait_released`](Self::wait_released), with a timeout. The timeout does not apply to
    /// destructors of thread-locals of threads that are ending.
    ///
    /// # Errors
    /// As [`wait_released`](Self::wait_released), and [`TimedOut`](crate::WaitError::TimedOut).
    pub fn wait_released_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::End, self.deadline(timeout))
    }

    /// Waits until no task is in flight. The pool stays open, so new tasks may be in flight when
    /// the call returns. The handle of the last task may resolve, and its waker be called, slightly
    /// later. Values without a handle have been dropped.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// for number in 0..10 {
    ///     pool.submit(move || println!("{number}"))?;
    /// }
    /// pool.wait_idle()?; // All ten have run.
    /// assert_eq!(pool.stats().completed, 10);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::WaitError::WouldDeadlock) on an own worker.
    pub fn wait_idle(&self) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::Rest, None)
    }

    /// Waits until no task is in flight, with a timeout.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// use pool_core::WaitError;
    /// use std::time::Duration;
    ///
    /// let (stop, stopped) = std::sync::mpsc::channel::<()>();
    /// pool.submit(move || stopped.recv()).map_err(|refused| refused.without_task())?;
    /// assert_eq!(pool.wait_idle_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    /// drop(stop);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// As [`wait_idle`](Self::wait_idle), and [`TimedOut`](crate::WaitError::TimedOut).
    pub fn wait_idle_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::Rest, self.deadline(timeout))
    }

    /// Reopens a released pool. Returns `false` if it is open.
    ///
    /// Workers that have not ended continue, and count against the capacity. Ended workers of
    /// `min_workers` are started again when there is work.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// pool.release();
    /// pool.wait_released()?;
    /// assert!(pool.reboot());
    /// assert_eq!(pool.spawn(|| 42)?.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "Reboot")]
    pub fn reboot(&self) -> bool {
        self.admit().reboot()
    }

    /// Returns a weak handle, which does not keep the pool open. For example, for a task that
    /// submits itself again.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let weak = pool.downgrade();
    /// pool.submit(move || {
    ///     if let Some(pool) = weak.upgrade() {
    ///         _ = pool.try_submit(|| println!("the next round"));
    ///     }
    /// })?;
    /// # pool.wait_idle()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn downgrade(&self) -> WeakWorkerPool<R, A> {
        WeakWorkerPool(Arc::downgrade(&self.0))
    }

    /// Returns whether the calling thread is one of the pool's workers.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let within = pool.clone();
    /// assert!(pool.spawn(move || within.is_own_worker())?.join()?);
    /// assert!(!pool.is_own_worker());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn is_own_worker(&self) -> bool {
        self.admit().is_own_worker()
    }
}

impl<R: Runner, A: Admit> Clone for WorkerPool<R, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Runner, A: Admit> fmt::Debug for WorkerPool<R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool")
            .field("name", &self.name())
            .field("stats", &self.stats())
            .finish()
    }
}

/// Weak handle of a pool: it does not keep the pool open. See [`WorkerPool::downgrade`].
pub struct WeakWorkerPool<R: Runner, A: Admit = Core>(Weak<Owner<R, A>>);

impl<R: Runner, A: Admit> WeakWorkerPool<R, A> {
    /// Returns a handle, if another one still keeps the pool open.
    pub fn upgrade(&self) -> Option<WorkerPool<R, A>> {
        self.0.upgrade().map(WorkerPool)
    }
}

impl<R: Runner, A: Admit> Clone for WeakWorkerPool<R, A> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

impl<R: Runner, A: Admit> fmt::Debug for WeakWorkerPool<R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakWorkerPool(..)")
    }
}

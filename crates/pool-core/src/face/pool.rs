//! The handle of a pool: what closures and typed pools have in common.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Instant;

use sync_shim::Timeout;

use crate::capacity::Capacity;
use crate::config::OnFull;
use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::engine::wait::Awaited;
use crate::error::TuneError;
use crate::sister::pool_handle::PoolHandle;
use crate::stats::Stats;
use crate::task::handle::Open;

/// A bounded, elastic pool of worker threads, as both [`Pool`](crate::Pool) and
/// [`FuncPool`](crate::FuncPool) are.
///
/// It takes tasks of each type that its runner [accepts](crate::Accepts).
///
/// A handle: cloning it is cheap, clones are the same pool, and the last one's drop releases the
/// pool as its [`DropPolicy`](crate::DropPolicy) says.
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
/// `A` is what admits its tasks: one pool, or several behind one handle (`multi_pool::MultiPool`).
/// A function over any of them is generic over both: `impl<R: Runner, A: Admit<R>>`.
pub struct WorkerPool<R: Runner, A: Admit<R> = Core<R>>(Arc<Owner<R, A>>);

/// Counted by the handles alone: workers, join handles and waiting futures hold the admission.
struct Owner<R: Runner, A: Admit<R>> {
    admit: Arc<A>,
    /// The handle of the multi-pool that this pool is a member of, and ends with.
    of: Option<Open>,
    runs: PhantomData<fn() -> R>,
}

impl<R: Runner, A: Admit<R>> Drop for Owner<R, A> {
    fn drop(&mut self) {
        if self.of.is_none() {
            self.admit.end();
        }
    }
}

impl<R: Runner> WorkerPool<R> {
    pub(crate) fn core(&self) -> &Arc<Core<R>> {
        &self.0.admit
    }
}

impl<R: Runner> PoolHandle<R> {
    /// The handle of a pool.
    pub fn of(pool: &WorkerPool<R>) -> Self {
        Self(Arc::clone(pool.core()))
    }
}

impl<R: Runner, A: Admit<R>> AdmitHandle for WorkerPool<R, A> {
    type Runner = R;
    type Admit = A;
    fn admit(&self) -> &Arc<A> {
        &self.0.admit
    }
}

impl<R: Runner, A: Admit<R>> WorkerPool<R, A> {
    /// The first handle.
    #[doc(hidden)]
    pub fn of(admit: Arc<A>) -> Self {
        Self::in_group(admit, None)
    }

    fn in_group(admit: Arc<A>, of: Option<Open>) -> Self {
        let runs = PhantomData;
        Self(Arc::new(Owner { admit, of, runs }))
    }

    /// A handle of a member of this multi-pool, which keeps the multi-pool open.
    #[doc(hidden)]
    pub fn member(&self, member: &PoolHandle<R>) -> WorkerPool<R> {
        WorkerPool::in_group(Arc::clone(&member.0), Some(self.keep_open()))
    }

    /// A handle like this one, whichever kind of pool it is of.
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

    /// The pool's name.
    pub fn name(&self) -> &str {
        self.admit().name()
    }

    /// Live workers, idle ones included.
    #[doc(alias = "Running")]
    pub fn running(&self) -> usize {
        self.admit().sum(PoolHandle::live)
    }

    /// Workers that could still be started: capacity less live, never negative; `None` if
    /// unlimited.
    #[doc(alias = "Free")]
    pub fn free(&self) -> Option<usize> {
        self.admit().free()
    }

    /// Threads and futures that wait for room, and due tasks of a scheduled pool that do.
    #[doc(alias = "Waiting")]
    pub fn waiting(&self) -> usize {
        self.admit().waiting()
    }

    /// The most live workers there may be.
    #[doc(alias = "Cap")]
    pub fn capacity(&self) -> Capacity {
        self.admit().capacity()
    }

    /// Workers that run a task, or other code of yours: see [`Stats::busy`].
    pub fn busy(&self) -> usize {
        self.stats().busy
    }

    /// Live workers that do not.
    pub fn idle(&self) -> usize {
        self.stats().idle
    }

    /// Accepted tasks that have not started.
    pub fn queued(&self) -> usize {
        self.admit().sum(PoolHandle::queued)
    }

    /// Accepted tasks that have not ended.
    pub fn in_flight(&self) -> usize {
        self.admit().sum(PoolHandle::in_flight)
    }

    /// All figures, at one instant.
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

    /// Whether the pool has been released (and not rebooted since).
    #[doc(alias = "IsClosed")]
    pub fn is_released(&self) -> bool {
        self.admit().is_released()
    }

    /// Lets no queued task start from now on, until the pool is [resumed](Self::resume). `false` if
    /// it is paused already, or released. Does not block.
    ///
    /// Tasks that run are not interrupted; one that a worker has just taken runs, too. Tasks are
    /// accepted as ever, down to the last room, and wait. Workers park and expire as ever, but for
    /// the last one while a task is queued. Of what else waits:
    ///
    /// | while the pool is paused | |
    /// |---|---|
    /// | a task that runs joins one that has not started, or submits at a full pool | it runs the other in place: as a part of itself |
    /// | a caller, under [`OnFull::RunInCaller`](crate::OnFull::RunInCaller) | waits for room: nothing new starts |
    /// | `wait_idle`; a mapping whose pieces are queued | wait for the resume |
    /// | a mapping or a scope that runs | its drain tasks end their turns; what the caller's own thread does goes on |
    /// | tasks of a key | the next waits in the queue |
    /// | `tune`, `cancel` | as ever |
    /// | `release`; the drop of the last handle | resumes: accepted tasks run (`release_now`, and `DropPolicy::Discard`, drop them) |
    /// | `reboot` | the pool is not paused |
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
    /// From the `PausableThreadPoolExecutor` of Java's documentation.
    #[doc(alias = "suspend")]
    pub fn pause(&self) -> bool {
        self.admit().pause()
    }

    /// Lets queued tasks start again. `false` if the pool is not [paused](Self::pause).
    pub fn resume(&self) -> bool {
        self.admit().resume()
    }

    /// Whether the pool is [paused](Self::pause).
    pub fn is_paused(&self) -> bool {
        self.admit().is_paused()
    }

    /// Changes the capacity, at any time.
    ///
    /// More: the wait queue's heads are accepted at once. Less: idle excess workers end at once,
    /// busy ones after their task; a thread that is being started at that moment still comes, and
    /// leaves at once.
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
    /// For a capacity of zero, and for an unlimited one if the pool is preallocated.
    #[doc(alias = "Tune")]
    pub fn tune(&self, capacity: impl Into<Capacity>) -> Result<(), TuneError> {
        self.admit().tune(capacity.into())
    }

    /// Accepts nothing from now on. `false` if that was done before. Does not block.
    ///
    /// Waiters get their tasks back; accepted tasks still run; idle workers
    /// end now and the others when nothing is left.
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

    /// Releases, and waits for the end, at most for so long. Thread-locals of threads that are
    /// ending are waited for without a limit.
    ///
    /// May be called again after a time-out, and by several threads.
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
    /// See [`WaitError`]. The pool is released all the same.
    #[doc(alias = "ReleaseTimeout")]
    #[doc(alias = "ReleaseContext")]
    pub fn release_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::Release, self.deadline(timeout))
    }

    /// Waits until the pool has ended: it is released (by any thread), nothing is in flight, and
    /// every worker's thread is gone, its thread-locals dropped and its panic hooks returned.
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
    /// [`WouldDeadlock`](WaitError::WouldDeadlock) on an own worker,
    /// [`Rebooted`](WaitError::Rebooted) if a reboot came first.
    pub fn wait_released(&self) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::End, None)
    }

    /// Waits for the end as [`wait_released`](Self::wait_released) does, at most for so long.
    /// Thread-locals of threads that are ending are waited for without a limit.
    ///
    /// # Errors
    /// Those, and [`TimedOut`](WaitError::TimedOut).
    pub fn wait_released_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::End, self.deadline(timeout))
    }

    /// Waits until nothing is in flight. The pool stays open, so that may be over on return; the
    /// last task's handle may resolve a moment after it, and a waker be called. A value for which
    /// there is no handle has been dropped with its task.
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
    /// [`WouldDeadlock`](WaitError::WouldDeadlock) on an own worker.
    pub fn wait_idle(&self) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::Rest, None)
    }

    /// Waits until nothing is in flight, at most for so long.
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
    /// As [`wait_idle`](Self::wait_idle), and [`TimedOut`](WaitError::TimedOut).
    pub fn wait_idle_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), A::WaitError> {
        self.admit().wait(Awaited::Rest, self.deadline(timeout))
    }

    /// Opens a released pool again, at any time; `false` if it is open.
    ///
    /// Workers that have not ended go on, and count against the capacity as ever. Those of
    /// `min_workers` that have are started again when there is work.
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

    /// A handle that does not keep the pool open, e.g. for a task that submits itself again.
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

    /// Whether the calling thread is one of the pool's workers.
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

impl<R: Runner, A: Admit<R>> Clone for WorkerPool<R, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Runner, A: Admit<R>> fmt::Debug for WorkerPool<R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool")
            .field("name", &self.name())
            .field("stats", &self.stats())
            .finish()
    }
}

/// A pool's handle that keeps nothing open. See [`WorkerPool::downgrade`].
pub struct WeakWorkerPool<R: Runner, A: Admit<R> = Core<R>>(Weak<Owner<R, A>>);

impl<R: Runner, A: Admit<R>> WeakWorkerPool<R, A> {
    /// The pool, if another handle still keeps it.
    pub fn upgrade(&self) -> Option<WorkerPool<R, A>> {
        self.0.upgrade().map(WorkerPool)
    }
}

impl<R: Runner, A: Admit<R>> Clone for WeakWorkerPool<R, A> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

impl<R: Runner, A: Admit<R>> fmt::Debug for WeakWorkerPool<R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakWorkerPool(..)")
    }
}

//! The current task and worker of a thread, and whether they are asked to stop.
//!
//! A worker registers itself once, when it starts. A task with a cell, because it was spawned or has options, is
//! registered while it runs; a plainly submitted task costs nothing here. Tasks that run in place nest: a task with
//! options replaces the outer one until it ends, and a task without options is part of the outer one. If it belongs to a
//! group, it can also be asked to stop itself.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use sync_shim::Mutex;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};

use crate::cancel::CancelToken;
use crate::task::cell::SpawnCell;

/// A task with a cell, as seen by the code that runs in it.
pub(crate) trait Running: Send + Sync + 'static {
    fn name(&self) -> Option<&str>;
    fn is_cancelled(&self) -> bool;
    /// Links `token` to the task: it is cancelled with the task.
    fn cancel_with_task(&self, token: &CancelToken);
}

/// A pool that can compensate for blocked workers.
pub(crate) trait Compensate: Send + Sync {
    /// Step B1. Returns `false` if the maximum number of workers is compensated already.
    fn begin_blocking(self: Arc<Self>) -> bool;
    /// Step B2, after B1 has returned `true`.
    fn end_blocking(self: Arc<Self>);
}

/// The current worker of a thread. Contains nothing whose drop is user code.
pub(crate) struct Worker {
    pub(crate) pool: Arc<str>,
    pub(crate) stop: Arc<StopRequest>,
    pub(crate) slot: usize,
    /// The pool, if it compensates for blocked workers.
    pub(crate) compensates: Option<Weak<dyn Compensate>>,
    /// Whether the worker is blocked. Relaxed, because only its own thread uses it.
    pub(crate) blocks: AtomicBool,
}

impl Worker {
    /// Marks the worker as blocked and returns its pool. Returns `None` if the pool does not compensate, or the worker is
    /// marked already.
    pub(crate) fn start_blocking(&self) -> Option<Arc<dyn Compensate>> {
        let pool = self.compensates.as_ref()?;
        if self.blocks.load(Relaxed) {
            return None;
        }
        let pool = pool.upgrade()?;
        self.blocks.store(true, Relaxed);
        Some(pool)
    }

    pub(crate) fn stop_blocking(&self) {
        self.blocks.store(false, Relaxed);
    }
}

/// Whether all running tasks of a pool are asked to stop.
// Changed in sections of the pool, so that of a `release_now` and a reboot the later one wins.
pub(crate) struct StopRequest {
    /// Relaxed: the token orders everything that must be ordered.
    asked: AtomicBool,
    token: Mutex<CancelToken>,
}

impl StopRequest {
    pub(crate) fn new() -> Self {
        Self {
            asked: AtomicBool::new(false),
            token: Mutex::new(CancelToken::new()),
        }
    }

    /// Requests the stop. The caller cancels the returned token after the pool's lock is released.
    pub(crate) fn ask(&self) -> CancelToken {
        self.asked.store(true, Relaxed);
        // Cloned under the lock, so that a reboot's new token is not cancelled in its place.
        self.token.lock().clone()
    }

    /// Withdraws the request, for tasks that start after a reboot.
    pub(crate) fn reset(&self) {
        self.asked.store(false, Relaxed);
        // A new token, because a cancelled one stays cancelled.
        *self.token.lock() = CancelToken::new();
    }

    fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    fn token(&self) -> CancelToken {
        self.token.lock().clone()
    }
}

/// The current task of a thread. The [`Frame`] that registered it keeps it alive.
#[derive(Clone, Copy)]
enum Entered {
    Cell(*const SpawnCell),
    Other(*const dyn Running),
}

/// A counted reference to the current task.
enum Shared {
    Cell(Arc<SpawnCell>),
    Other(Arc<dyn Running>),
}

impl Shared {
    fn task(&self) -> &dyn Running {
        match self {
            Self::Cell(cell) => cell,
            Self::Other(task) => &**task,
        }
    }
}

sync_shim::thread_locals! {
    static TASK: Cell<Option<Entered>> = Cell::new(None);
    static WORKER: Cell<Option<Arc<Worker>>> = Cell::new(None);
}

/// A guard while which its task is the current one of this thread.
///
/// Where thread-locals are destroyed already (a task that runs in place in the destructor of one), there is no current
/// task.
///
/// # Invariant
/// `TASK` points to the task of the innermost frame, which borrows it. Frames are dropped in reverse order of their
/// creation, also during a panic.
#[must_use]
pub(crate) struct Frame<'a> {
    /// The outer frame's task.
    outer: Option<Entered>,
    /// Whether the thread-local still existed.
    is_set: bool,
    of: PhantomData<&'a SpawnCell>,
}

impl<'a> Frame<'a> {
    #[inline]
    pub(crate) fn of_cell(task: &'a Arc<SpawnCell>) -> Self {
        Self::enter(Entered::Cell(Arc::as_ptr(task)))
    }

    pub(crate) fn of<T: Running>(task: &'a Arc<T>) -> Self {
        let task: *const T = Arc::as_ptr(task);
        Self::enter(Entered::Other(task))
    }

    /// Creates a frame for a task that runs in place as part of the current one. It is asked to stop with the current task,
    /// and by callers that cancel the task itself.
    pub(crate) fn part(cell: &Arc<SpawnCell>) -> PartFrame {
        let (cell, outer) = (Arc::clone(cell), task());
        let part = Arc::new(Part { cell, outer });
        let task: *const Part = Arc::as_ptr(&part);
        PartFrame(Frame::enter(Entered::Other(task)), part)
    }

    #[inline]
    fn enter(task: Entered) -> Self {
        // `try_with`, because a task may run in place in the destructor of a thread-local, after `TASK` is gone.
        let outer = TASK.try_with(|cell| cell.replace(Some(task)));
        Self {
            is_set: outer.is_ok(),
            outer: outer.ok().flatten(),
            of: PhantomData,
        }
    }
}

impl Drop for Frame<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_set {
            let _gone = TASK.try_with(|cell| cell.set(self.outer));
        }
    }
}

/// The frame of a part of the current task. Fields are dropped in order, so the frame goes before the part.
#[must_use]
pub(crate) struct PartFrame(
    #[expect(dead_code, reason = "its drop is what counts")] Frame<'static>,
    #[expect(dead_code, reason = "the frame borrows it")] Arc<Part>,
);

/// A task without a name of its own that runs as part of another one.
struct Part {
    cell: Arc<SpawnCell>,
    outer: Option<Shared>,
}

impl Running for Part {
    fn name(&self) -> Option<&str> {
        self.outer.as_ref()?.task().name()
    }

    fn is_cancelled(&self) -> bool {
        let outer = self.outer.as_ref();
        self.cell.is_cancelled() || outer.is_some_and(|outer| outer.task().is_cancelled())
    }

    fn cancel_with_task(&self, token: &CancelToken) {
        self.cell.cancel_with_task(token);
        if let Some(outer) = &self.outer {
            outer.task().cancel_with_task(token);
        }
    }
}

/// Returns the current task of this thread.
fn task() -> Option<Shared> {
    let entered = TASK.try_with(Cell::get).ok().flatten()?;
    Some(match entered {
        Entered::Cell(cell) => {
            // SAFETY: the pointer comes from an `Arc` that the frame borrows, and the frame still exists (its invariant).
            unsafe { Arc::increment_strong_count(cell) };
            // SAFETY: the same; the count was just raised for this reference.
            Shared::Cell(unsafe { Arc::from_raw(cell) })
        }
        Entered::Other(task) => {
            // SAFETY: as for a cell.
            unsafe { Arc::increment_strong_count(task) };
            // SAFETY: as for a cell.
            Shared::Other(unsafe { Arc::from_raw(task) })
        }
    })
}

/// Registers the calling thread's worker, or removes it.
pub(crate) fn set_worker(worker: Option<Arc<Worker>>) {
    let _gone = WORKER.try_with(|cell| cell.replace(worker));
}

/// Returns the calling thread's worker.
pub(crate) fn worker() -> Option<Arc<Worker>> {
    let peek = |cell: &Cell<Option<Arc<Worker>>>| {
        // Taken and put back, because a `Cell` cannot be borrowed and nothing here runs user code in between.
        let value = cell.take();
        cell.set(value.clone());
        value
    };
    WORKER.try_with(peek).ok().flatten()
}

/// The task and worker of the calling thread. See [`current`].
#[must_use]
pub struct Current {
    task: Option<Shared>,
    worker: Option<Arc<Worker>>,
}

/// Returns the task that runs on the calling thread, and its worker.
///
/// Both are absent on a thread that is not a worker. A task without options that runs in place inside another one is
/// part of that one, and asked to stop with it. Costs two reference counts, so a loop should keep the result.
///
/// ```
/// use pool_core::{JoinError, Pool};
///
/// let pool = Pool::builder().name("crawlers").capacity(1).build()?;
/// let crawler = pool.task().name("crawl example.org").spawn(|| {
///     let current = pool_core::current();
///     assert_eq!(current.pool(), Some("crawlers"));
///     assert_eq!(current.name(), Some("crawl example.org"));
///     let mut pages = 0;
///     while !current.is_cancelled() {
///         pages += 1;
///         std::thread::yield_now();
///     }
///     pages
/// })?;
/// crawler.cancel();
/// assert!(matches!(crawler.join(), Ok(_) | Err(JoinError::Cancelled)));
/// assert!(!pool_core::current().is_cancelled());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[doc(alias = "interrupted")]
pub fn current() -> Current {
    Current {
        task: task(),
        worker: worker(),
    }
}

impl Current {
    /// Returns whether the task is asked to stop: by its handle, its group, one of its tokens, or a `release_now` of its
    /// pool (until a reboot). Costs a few loads.
    pub fn is_cancelled(&self) -> bool {
        self.task
            .as_ref()
            .is_some_and(|task| task.task().is_cancelled())
            || self
                .worker
                .as_ref()
                .is_some_and(|worker| worker.stop.is_asked())
    }

    /// Returns a token that is cancelled when the task is asked to stop. It can be passed on or waited for
    /// ([`CancelToken::wait_timeout`] is a sleep that the request ends). Cancelling it does not affect the task. Costs an
    /// allocation.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// use std::time::Duration;
    ///
    /// let poller = pool.spawn(|| {
    ///     let stop = pool_core::current().token();
    ///     while !stop.wait_timeout(Duration::from_millis(1)) {} // A sleep that ends early.
    /// })?;
    /// poller.cancel();
    /// _ = poller.join();
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn token(&self) -> CancelToken {
        let token = CancelToken::new();
        if let Some(task) = &self.task {
            task.task().cancel_with_task(&token);
        }
        if let Some(worker) = &self.worker {
            token.cancel_with(&worker.stop.token());
        }
        token
    }

    /// Returns the task's [name](crate::TaskBuilder::name), if it has one.
    pub fn name(&self) -> Option<&str> {
        self.task.as_ref().and_then(|task| task.task().name())
    }

    /// Returns the name of the pool, on a worker.
    pub fn pool(&self) -> Option<&str> {
        self.worker.as_ref().map(|worker| &*worker.pool)
    }

    /// Returns the worker's slot: the lowest number, from 0, that no other live worker of its pool had when it was started.
    /// It is below the pool's capacity at that time (plus [`max_compensation`](crate::Builder::max_compensation)). Use it
    /// as an index into per-worker state. Hooks can read it, too.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let slot = pool.spawn(|| pool_core::current().worker())?.join()?;
    /// assert_eq!(slot, Some(0)); // The first worker.
    /// assert_eq!(pool_core::current().worker(), None); // No worker of any pool.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn worker(&self) -> Option<usize> {
        self.worker.as_ref().map(|worker| worker.slot)
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("pool", &self.pool())
            .field("worker", &self.worker())
            .field("name", &self.name())
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

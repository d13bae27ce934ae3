//! What runs on the calling thread: a task of which pool, and whether it is asked to stop.
//!
//! A worker sets its part once, as it starts. A worker that starts a task which has a cell, because it
//! was spawned or given options, sets that; one that was submitted plainly costs nothing here. Tasks
//! that run in place nest: one with options is set for its own time, and the outer one is back after
//! it; one without is a part of the outer one, and if it is a group's, it may be asked to stop itself.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use sync_shim::Mutex;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};

use crate::task::cancel::CancelToken;
use crate::task::cell::SpawnCell;

/// A task with a cell, as the code that runs in it sees it.
pub(crate) trait Running: Send + Sync + 'static {
    fn name(&self) -> Option<&str>;
    fn is_cancelled(&self) -> bool;
    /// Has `token` cancelled with the task.
    fn cancel_with_task(&self, token: &CancelToken);
}

/// A pool of which a worker may block.
pub(crate) trait Compensate: Send + Sync {
    /// Step B1. `false` if as many workers block already as others may be there for.
    fn begin_blocking(self: Arc<Self>) -> bool;
    /// Step B2, after a `true`.
    fn end_blocking(self: Arc<Self>);
}

/// A worker's part. It holds nothing whose drop is user code.
pub(crate) struct Worker {
    pub(crate) pool: Arc<str>,
    pub(crate) stop: Arc<StopRequest>,
    pub(crate) slot: usize,
    /// The pool, if another worker may be there while this one blocks.
    pub(crate) compensates: Option<Weak<dyn Compensate>>,
    /// It blocks. Relaxed: only its own thread reads it.
    pub(crate) blocks: AtomicBool,
}

impl Worker {
    /// The pool, if it may compensate and this worker does not block yet. From now on it does.
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

/// Whether all that runs in a pool is asked to stop. Changed in sections of the pool, so that a
/// `release_now` and a reboot leave it as the later of them does.
pub(crate) struct StopRequest {
    /// Relaxed: the token orders what is to be ordered.
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

    /// Asks. The token is to be cancelled when the pool's lock is free.
    pub(crate) fn ask(&self) -> CancelToken {
        self.asked.store(true, Relaxed);
        self.token.lock().clone()
    }

    /// The pool is open again: what starts now is not asked.
    pub(crate) fn reset(&self) {
        self.asked.store(false, Relaxed);
        *self.token.lock() = CancelToken::new();
    }

    fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    fn token(&self) -> CancelToken {
        self.token.lock().clone()
    }
}

/// The current task of a thread, which is kept by the [`Frame`] that entered it.
#[derive(Clone, Copy)]
enum Entered {
    Cell(*const SpawnCell),
    Other(*const dyn Running),
}

/// The same, shared.
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

/// While it exists its task is the current one of this thread. Where thread-locals are gone already
/// (a task that runs in place in the destructor of one) no task is.
///
/// # Invariant
/// `TASK` names the task of the innermost frame, which borrows it: a frame is dropped before what was
/// entered before it, whatever unwinds.
#[must_use]
pub(crate) struct Frame<'a> {
    /// The task that it stands in place of.
    outer: Option<Entered>,
    /// Whether there was a place for the task.
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

    /// For a task that runs in place as a part of the current one: it is asked to stop with that, and by
    /// whoever may cancel the task itself.
    pub(crate) fn part(cell: &Arc<SpawnCell>) -> PartFrame {
        let (cell, outer) = (Arc::clone(cell), task());
        let part = Arc::new(Part { cell, outer });
        let task: *const Part = Arc::as_ptr(&part);
        PartFrame(Frame::enter(Entered::Other(task)), part)
    }

    #[inline]
    fn enter(task: Entered) -> Self {
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

/// The frame of a part of the current task. It is dropped before the part.
#[must_use]
pub(crate) struct PartFrame(
    #[expect(dead_code, reason = "its drop is what counts")] Frame<'static>,
    #[expect(dead_code, reason = "the frame borrows it")] Arc<Part>,
);

/// A task that has no name of its own, and runs as a part of another.
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

/// The current task of this thread.
fn task() -> Option<Shared> {
    let entered = TASK.try_with(Cell::get).ok().flatten()?;
    Some(match entered {
        Entered::Cell(cell) => {
            // SAFETY: it is that of an `Arc` which the frame borrows, and the frame is there (its
            // invariant).
            unsafe { Arc::increment_strong_count(cell) };
            // SAFETY: the same; the count is that of this reference.
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

/// The calling thread is this worker from now on, or no longer any.
pub(crate) fn set_worker(worker: Option<Arc<Worker>>) {
    let _gone = WORKER.try_with(|cell| cell.replace(worker));
}

/// The worker that the calling thread is.
pub(crate) fn worker() -> Option<Arc<Worker>> {
    let peek = |cell: &Cell<Option<Arc<Worker>>>| {
        let value = cell.take();
        cell.set(value.clone());
        value
    };
    WORKER.try_with(peek).ok().flatten()
}

/// What runs on the calling thread; see [`current`].
#[must_use]
pub struct Current {
    task: Option<Shared>,
    worker: Option<Arc<Worker>>,
}

/// The task that runs on the calling thread, and its worker.
///
/// On a thread of no pool it says that nothing runs. A task without options that runs in place, inside
/// of another, is a part of that one, and asked to stop with it. Costs two reference counts; a loop
/// keeps it.
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
    /// Whether the task is asked to stop: by its handle, its group, a token that it was given, or a
    /// `release_now` of its pool (until a reboot). Costs a few loads.
    pub fn is_cancelled(&self) -> bool {
        self.task
            .as_ref()
            .is_some_and(|task| task.task().is_cancelled())
            || self
                .worker
                .as_ref()
                .is_some_and(|worker| worker.stop.is_asked())
    }

    /// A token that is cancelled when the task is asked to stop: to be handed on, or waited with
    /// ([`CancelToken::wait_timeout`] is a sleep that ends then). To cancel it does not ask the task.
    /// Costs an allocation.
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

    /// The task's [name](crate::TaskBuilder::name), if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.task.as_ref().and_then(|task| task.task().name())
    }

    /// The name of the pool, on a worker.
    pub fn pool(&self) -> Option<&str> {
        self.worker.as_ref().map(|worker| &*worker.pool)
    }

    /// The worker's slot: the lowest number, from 0, that no other live worker of its pool had as it
    /// was started; below the pool's capacity at that time (and its
    /// [`max_compensation`](crate::Builder::max_compensation)). For state per worker: an index into a
    /// table, a shard. Known to hooks, too.
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

//! Batches: many tasks in one call.
//!
//! Tasks are pulled from the iterator in chunks, with no lock held. A section accepts the prefix of
//! a chunk that fits, in order, and decides once how many workers to wake. The first task that does
//! not fit is submitted on its own, so that it waits or is refused as usual.

use std::fmt;
use std::future::Future;
use std::iter::Fuse;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::Arc;

use sync_shim::Timeout;

use crate::config::OnFull;
use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::runner::{Accepts, Runner};
use crate::error::SubmitError;
use crate::face::pool::WorkerPool;
use crate::foreign::{Payload, drop_quietly, guarded};
use crate::sched::queue::{Chunk, TaskQueue};
use crate::task::erased::Task;

/// Size of the first chunk, if the iterator's size hint allows. It doubles up to [`LARGEST_CHUNK`],
/// so that the first tasks start soon and the queue takes whole blocks of the others. In a model
/// each chunk is one task, because a model must see several sections.
const FIRST_CHUNK: usize = if cfg!(anthill_loom) { 1 } else { 16 };
const LARGEST_CHUNK: usize = if cfg!(anthill_loom) { 1 } else { 256 };

/// Error of a batch submit: only a prefix was accepted. Contains the remaining tasks, in order.
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(1).queue_depth(1).start_paused(true).build()?;
/// let numbers = (0..5).map(|number| move || println!("{number}"));
/// let refused = pool.try_submit_batch(numbers).unwrap_err();
/// assert_eq!(refused.submitted(), 2);
/// assert_eq!(refused.into_refused().count(), 3); // Returned in order.
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct BatchError<I: Iterator> {
    reason: SubmitError,
    submitted: usize,
    refused: std::vec::IntoIter<I::Item>,
    rest: Fuse<I>,
}

impl<I: Iterator> BatchError<I> {
    /// Returns the reason why the first remaining task was refused.
    pub fn reason(&self) -> &SubmitError {
        &self.reason
    }

    /// Returns the number of accepted tasks: a prefix of the batch.
    pub fn submitted(&self) -> usize {
        self.submitted
    }

    /// Returns the remaining tasks, in order: first those already pulled, then the rest of the iterator.
    pub fn into_refused(self) -> impl Iterator<Item = I::Item> {
        self.refused.chain(self.rest)
    }

    /// Returns the reason and drops the remaining tasks.
    pub fn without_tasks(self) -> SubmitError {
        self.reason
    }
}

impl<I: Iterator> fmt::Debug for BatchError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchError")
            .field("reason", &self.reason)
            .field("submitted", &self.submitted)
            .finish_non_exhaustive()
    }
}

impl<I: Iterator> fmt::Display for BatchError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "after {} tasks of a batch: {}",
            self.submitted, self.reason
        )
    }
}

impl<I: Iterator> std::error::Error for BatchError<I> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.reason.source()
    }
}

/// A batch in progress. Its callers differ only in how they wait for room for a head.
struct Batch<'p, R: Runner, A, I: Iterator> {
    pools: &'p Arc<A>,
    rest: Fuse<I>,
    chunk: TaskQueue<Task>,
    /// Number of tasks to pull next.
    size: usize,
    submitted: usize,
    /// A panic of the iterator, resumed once the tasks pulled before it are handed over.
    panic: Option<Payload>,
    runs: PhantomData<fn() -> R>,
}

impl<'p, R, A, I> Batch<'p, R, A, I>
where
    A: Admit,
    I: Iterator,
    R: Accepts<I::Item>,
{
    fn new(pools: &'p Arc<A>, tasks: I) -> Result<Self, BatchError<I>> {
        // Chunks are sized by the tasks seen so far, so `next` must not be called again after the end.
        let rest = tasks.fuse();
        let submitted = 0;
        // Checks for a fork, which must come before `admit_some`: a lock may have been held at the
        // fork.
        if let Err(reason) = pools.refuses(OnFull::Wait(None)) {
            return Err(BatchError {
                reason,
                submitted,
                refused: Vec::new().into_iter(),
                rest,
            });
        }
        // Clamped, because a size hint may be wrong, and must not decide how much is allocated.
        let size = rest.size_hint().0.clamp(1, FIRST_CHUNK);
        Ok(Self {
            pools,
            rest,
            chunk: TaskQueue::with_capacity(size),
            size,
            submitted,
            panic: None,
            runs: PhantomData,
        })
    }

    /// Submits as many tasks as there is room for. Returns the first job without room, or `None` at
    /// the end of the batch.
    fn head(&mut self) -> Option<Task> {
        loop {
            while self.chunk.len() > 0 {
                let before = self.chunk.len();
                self.pools.admit_some(Chunk(&mut self.chunk));
                self.submitted += before - self.chunk.len();
                if let Some(head) = self.chunk.pop() {
                    return Some(head);
                }
            }
            if let Some(payload) = self.panic.take() {
                resume_unwind(payload);
            }
            let Self {
                pools, rest, chunk, ..
            } = self;
            // USER CODE: the caller's iterator. Its panic is resumed after the pulled tasks are
            // accepted.
            let pulled = guarded(|| {
                for task in rest.by_ref().take(self.size) {
                    chunk.push(pools.recorded(Task::closure(R::body_of(task))));
                }
            });
            self.panic = pulled.err();
            self.size = (self.size * 2).min(LARGEST_CHUNK);
            if chunk.len() == 0 && self.panic.is_none() {
                return None;
            }
        }
    }

    /// Returns the error of a batch whose head was refused.
    fn refuse(mut self, head: Option<Task>, reason: SubmitError) -> BatchError<I> {
        let refused = head.into_iter().chain(self.chunk.take_all());
        let refused: Vec<_> = refused.map(|job| R::task_of(job.into_body())).collect();
        if let Some(payload) = self.panic {
            // USER CODE: the drop of a refused task after a panic of the iterator.
            drop_quietly(refused);
            resume_unwind(payload);
        }
        BatchError {
            reason,
            submitted: self.submitted,
            refused: refused.into_iter(),
            rest: self.rest,
        }
    }
}

/// Hands over all tasks in as few sections as the pool's room allows; returns their number.
///
/// # Errors
/// The reason of the first refusal, and the remaining tasks.
fn submit_batch<R, A, I>(pools: &Arc<A>, tasks: I, on_full: OnFull) -> Result<usize, BatchError<I>>
where
    A: Admit,
    I: Iterator,
    R: Accepts<I::Item>,
{
    let mut batch = Batch::<R, A, _>::new(pools, tasks)?;
    while let Some(head) = batch.head() {
        let mut head = Some(head);
        match pools.admit_job(&mut head, on_full, None) {
            Ok(_) => batch.submitted += 1,
            Err(reason) => return Err(batch.refuse(head, reason)),
        }
    }
    Ok(batch.submitted)
}

/// Batches.
impl<R: Runner, A: Admit> WorkerPool<R, A> {
    /// Submits every task of an iterator, in order, and returns their number. Waits while the pool is
    /// full. Each task is treated as by [`submit`](Self::submit).
    ///
    /// Takes the pool's lock once for up to 256 tasks, and wakes workers for all of them at once.
    /// The iterator is pulled on the calling thread with no lock held; tasks of other threads may
    /// be accepted in between. Pulled tasks wait until their chunk is complete, so if the iterator
    /// blocks, [submit](Self::submit) its tasks one by one.
    ///
    /// ```
    /// use pool_core::{BatchError, Pool};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let pool = Pool::builder().capacity(4).build()?;
    /// let sum = Arc::new(AtomicU64::new(0));
    /// let tasks = (1..=100).map(|n| {
    ///     let sum = Arc::clone(&sum);
    ///     move || sum.fetch_add(n, Ordering::Relaxed)
    /// });
    /// let count = pool.submit_batch(tasks).map_err(BatchError::without_tasks)?;
    /// assert_eq!(count, 100);
    /// pool.wait_idle()?;
    /// assert_eq!(sum.load(Ordering::Relaxed), 5050);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BatchError`] contains the tasks from the first refused one on.
    ///
    /// # Panics
    /// If the iterator panics. The tasks before the panic have been submitted.
    #[doc(alias = "bulk")]
    #[doc(alias = "submit_many")]
    pub fn submit_batch<I>(&self, tasks: I) -> Result<usize, BatchError<I::IntoIter>>
    where
        I: IntoIterator,
        R: Accepts<I::Item>,
    {
        self::submit_batch::<R, A, _>(self.admit(), tasks.into_iter(), self.on_full())
    }

    /// Like [`submit_batch`](Self::submit_batch), but refuses tasks that find no room.
    ///
    /// # Errors
    /// [`BatchError`] contains the tasks from the first refused one on.
    pub fn try_submit_batch<I>(&self, tasks: I) -> Result<usize, BatchError<I::IntoIter>>
    where
        I: IntoIterator,
        R: Accepts<I::Item>,
    {
        self::submit_batch::<R, A, _>(self.admit(), tasks.into_iter(), OnFull::Refuse)
    }

    /// Like [`submit_batch`](Self::submit_batch), but waits at most that long, or until that instant:
    /// for all of the batch.
    ///
    /// # Errors
    /// [`BatchError`]: the tasks from the first that was refused on come back, unrun.
    pub fn submit_batch_timeout<I>(
        &self,
        tasks: I,
        timeout: impl Into<Timeout>,
    ) -> Result<usize, BatchError<I::IntoIter>>
    where
        I: IntoIterator,
        R: Accepts<I::Item>,
    {
        let deadline = self.deadline(timeout);
        self::submit_batch::<R, A, _>(self.admit(), tasks.into_iter(), OnFull::Wait(deadline))
    }

    /// Async version of [`submit_batch`](Self::submit_batch). Pulls the iterator when it is polled.
    /// At a full pool it waits as [`submit_async`](Self::submit_async) does.
    ///
    /// Dropping the future drops the tasks that have not been accepted.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::{BatchError, Pool};
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let tasks = (0..100).map(|number| move || println!("{number}"));
    /// let count = pool.submit_batch_async(tasks).await.map_err(BatchError::without_tasks)?;
    /// assert_eq!(count, 100);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`BatchError`]: the tasks from the first that was refused on come back, unrun.
    pub fn submit_batch_async<I>(
        &self,
        tasks: I,
    ) -> impl Future<Output = Result<usize, BatchError<I::IntoIter>>> + Send + use<R, A, I>
    where
        I: IntoIterator<IntoIter: Send, Item: Send>,
        R: Accepts<I::Item>,
    {
        let (pools, tasks) = (Arc::clone(self.admit()), tasks.into_iter());
        async move {
            let mut batch = Batch::<R, A, _>::new(&pools, tasks)?;
            while let Some(head) = batch.head() {
                match Arc::clone(&pools).admit_async(head, None).await {
                    Ok(_) => batch.submitted += 1,
                    Err(refused) => {
                        let (reason, head) = refused.into_parts();
                        return Err(batch.refuse(Some(head), reason));
                    }
                }
            }
            Ok(batch.submitted)
        }
    }
}

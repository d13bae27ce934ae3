//! Many tasks in one call.
//!
//! The iterator is pulled into a queue of its own, some tasks at a time and with no lock held. What
//! a section finds room for enters in that section, in order, and one decision is made whom to wake
//! for all of it. Where there is no room the first that is left is submitted as any task is, which
//! waits or is refused.

use std::fmt;
use std::future::Future;
use std::iter::Fuse;
use std::panic::resume_unwind;
use std::sync::Arc;

use sync_shim::Timeout;

use crate::config::OnFull;
use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::runner::Runner;
use crate::error::SubmitError;
use crate::face::pool::WorkerPool;
use crate::foreign::{Payload, drop_quietly, guarded};
use crate::sched::queue::{Chunk, TaskQueue};
use crate::task::accept::Accepts;

/// Tasks that are pulled before a section is made of them: at first so many, if the iterator says
/// that it has as many, and then twice as many each time, up to [`LARGEST_CHUNK`]. So the first starts
/// soon, and the queue takes whole blocks of the others. In a model one each time, so that there are
/// several sections.
const FIRST_CHUNK: usize = if cfg!(anthill_loom) { 1 } else { 16 };
const LARGEST_CHUNK: usize = if cfg!(anthill_loom) { 1 } else { 256 };

/// Not all tasks of a batch were taken. The first so many were; the others come back, in order.
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(1).queue_depth(1).start_paused(true).build()?;
/// let numbers = (0..5).map(|number| move || println!("{number}"));
/// let refused = pool.try_submit_batch(numbers).unwrap_err();
/// assert_eq!(refused.submitted(), 2);
/// assert_eq!(refused.into_refused().count(), 3); // They come back, in order.
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct BatchError<I: Iterator> {
    reason: SubmitError,
    submitted: usize,
    refused: std::vec::IntoIter<I::Item>,
    rest: Fuse<I>,
}

impl<I: Iterator> BatchError<I> {
    /// Why.
    pub fn reason(&self) -> &SubmitError {
        &self.reason
    }

    /// How many tasks were accepted: the first ones.
    pub fn submitted(&self) -> usize {
        self.submitted
    }

    /// The tasks that were not, in their order: those that had been pulled, then what the iterator
    /// gives still.
    pub fn into_refused(self) -> impl Iterator<Item = I::Item> {
        self.refused.chain(self.rest)
    }

    /// The reason alone. Drops the other tasks, here.
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

/// A batch under way. Its callers differ only in how they wait for the room of a head.
struct Batch<'p, R: Runner, A, I: Iterator> {
    pools: &'p Arc<A>,
    rest: Fuse<I>,
    chunk: TaskQueue<R::Job>,
    /// Number of tasks to pull next.
    size: usize,
    submitted: usize,
    /// A panic of the iterator, which goes on once what was pulled before it is accepted.
    panic: Option<Payload>,
}

impl<'p, R, A, I> Batch<'p, R, A, I>
where
    A: Admit<R>,
    I: Iterator,
    R: Accepts<I::Item>,
{
    fn new(pools: &'p Arc<A>, tasks: I) -> Result<Self, BatchError<I>> {
        // How many are asked for at a time depends on how many came before: none is asked for after the end.
        let rest = tasks.fuse();
        let submitted = 0;
        // Of a call that may wait: a fork, which may have left a lock held.
        if let Err(reason) = pools.refuses(OnFull::Wait(None)) {
            return Err(BatchError {
                reason,
                submitted,
                refused: Vec::new().into_iter(),
                rest,
            });
        }
        let size = rest.size_hint().0.clamp(1, FIRST_CHUNK);
        Ok(Self {
            pools,
            rest,
            chunk: TaskQueue::with_capacity(size),
            size,
            submitted,
            panic: None,
        })
    }

    /// Submits as many tasks as there is room for. Returns the first job without room, or `None` at
    /// the end of the batch.
    fn head(&mut self) -> Option<R::Job> {
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
            // USER CODE: the caller's iterator. A panic goes on at the caller, after what was pulled is accepted.
            let pulled = guarded(|| {
                for task in rest.by_ref().take(self.size) {
                    chunk.push(pools.detached_job(task));
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
    fn refuse(mut self, head: Option<R::Job>, reason: SubmitError) -> BatchError<I> {
        let refused = head.into_iter().chain(self.chunk.take_all());
        let refused: Vec<_> = refused.map(R::unrecorded).map(R::task_of).collect();
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

/// Hands over all tasks, by as few sections as there is room for: how many there were.
///
/// # Errors
/// Why the first that was not accepted was refused, and all that are left.
pub fn submit_batch<R, A, I>(
    pools: &Arc<A>,
    tasks: I,
    on_full: OnFull,
) -> Result<usize, BatchError<I>>
where
    A: Admit<R>,
    I: Iterator,
    R: Accepts<I::Item>,
{
    let mut batch = Batch::new(pools, tasks)?;
    while let Some(head) = batch.head() {
        let mut head = Some(head);
        match pools.admit_job(&mut head, on_full, None) {
            Ok(_) => batch.submitted += 1,
            Err(reason) => return Err(batch.refuse(head, reason)),
        }
    }
    Ok(batch.submitted)
}

/// Many tasks at once.
impl<R: Runner, A: Admit<R>> WorkerPool<R, A> {
    /// Hands over every task of an iterator, in its order, and waits while the pool is full: how
    /// many there were. What [`submit`](Self::submit) says of one holds of each.
    ///
    /// Takes the pool's lock once for up to 256 tasks, not for each, and wakes workers for all of
    /// those at once. The iterator is pulled on this thread, with no lock held; tasks of other
    /// threads may come in between. What has been pulled waits for those 256: an iterator that
    /// blocks is better [submitted](Self::submit) one by one.
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
    /// [`BatchError`]: the tasks from the first that was refused on come back, unrun.
    ///
    /// # Panics
    /// With a panic of the iterator: the tasks before it are handed over, as one by one.
    #[doc(alias = "bulk")]
    #[doc(alias = "submit_many")]
    pub fn submit_batch<I>(&self, tasks: I) -> Result<usize, BatchError<I::IntoIter>>
    where
        I: IntoIterator,
        R: Accepts<I::Item>,
    {
        self::submit_batch(self.admit(), tasks.into_iter(), self.on_full())
    }

    /// As [`submit_batch`](Self::submit_batch), but takes what there is room for and refuses the
    /// rest.
    ///
    /// # Errors
    /// [`BatchError`]: the tasks from the first that was refused on come back, unrun.
    pub fn try_submit_batch<I>(&self, tasks: I) -> Result<usize, BatchError<I::IntoIter>>
    where
        I: IntoIterator,
        R: Accepts<I::Item>,
    {
        self::submit_batch(self.admit(), tasks.into_iter(), OnFull::Refuse)
    }

    /// As [`submit_batch`](Self::submit_batch), but waits at most that long, or until that instant:
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
        self::submit_batch(self.admit(), tasks.into_iter(), OnFull::Wait(deadline))
    }

    /// As [`submit_batch`](Self::submit_batch), as a future, which pulls the iterator as it is
    /// polled. Each task that finds no room waits as [`submit_async`](Self::submit_async) does.
    ///
    /// A future that is dropped drops the tasks that have not been accepted.
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
            let mut batch = Batch::new(&pools, tasks)?;
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

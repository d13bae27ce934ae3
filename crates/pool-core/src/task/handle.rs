//! The handle of a spawned task.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use sync_shim::{Clock, Process, Timeout};

use crate::error::JoinError;
use crate::sched::join_spin::look_before_join;
use crate::task::cell::{Claim, SpawnCell, Stored};
use crate::task::current::Frame;
use crate::task::promise::{self, Joined, Promised};
use crate::task::run::{Outcome, TaskContext};

/// A handle that keeps pools open: a pool's own, or a multi-pool's.
pub(crate) type Open = Arc<dyn Any + Send + Sync>;

/// What a handle needs of its pool.
pub(crate) trait PoolRef: Send + Sync {
    fn context(&self) -> &TaskContext;
    fn clock(&self) -> &dyn Clock;
    /// Whether the caller is a worker of the pool.
    fn is_own_worker(&self) -> bool;
    /// The process of the workers.
    fn process(&self) -> Process;
    /// Whether the caller, an own worker, may run another task inside its own.
    fn may_nest(&self) -> bool;
    /// Whether the calling thread is ending tasks that it took out of the queue.
    fn is_disposing(&self) -> bool;
    /// Runs what may itself submit, one level deeper in this thread's nesting.
    fn nested(&self, run: &mut dyn FnMut() -> Outcome) -> Outcome;
    /// Takes a task out of the queue for its handle: its room is free at once. `claim` is asked in
    /// the section; if it says no, nothing has happened. `end` then ends the task, here, and the
    /// figures show it.
    fn withdraw(
        self: Arc<Self>,
        claim: &mut dyn FnMut() -> bool,
        end: &mut dyn FnMut() -> Outcome,
    ) -> bool;
}

/// Waits for a spawned task, takes its value, or cancels it.
///
/// It is a thread's handle and a [`Future`] at once, on any runtime. Dropping it detaches: the
/// task runs all the same and its value is dropped; a panic of that drop ends there.
///
/// By the time a join returns, the pool's room and figures show the task's end.
///
/// # On a worker of the same pool
/// [`join`](JoinHandle::join) of a task that has not started runs it in place, so a task may wait
/// for those it has spawned without holding a worker idle. Its room is free from then on, and it
/// counts as in flight until it ends. No other task is ever run inside a join. If the task runs
/// elsewhere the join blocks.
///
/// Tasks in place inside one another take stack. At the pool's
/// [nesting limit](crate::Builder::nesting_limit) the join is refused with
/// [`JoinError::WouldDeadlock`]: to block there would deadlock once all workers do it. The task
/// runs all the same, and its value is dropped.
///
/// Nothing is started in place by a join with a time limit, which could not keep it, nor by a
/// poll, which is not to block. Both wait for another worker to start the task. So a task that
/// blocks on a future of its own pool (`block_on`) holds its worker, and in a full pool may wait
/// for ever: join there.
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(2).build()?;
/// let sum = pool.spawn(|| (1..=10).sum::<u32>())?;
/// assert_eq!(sum.join()?, 55); // Or `.await`, on any runtime.
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[must_use = "dropping a handle detaches its task; `submit` is cheaper where nothing waits for it"]
pub struct JoinHandle<R> {
    raw: RawHandle,
    of: PhantomData<fn() -> R>,
}

impl<R: Send + 'static> JoinHandle<R> {
    /// The handle of a task whose value is an `R`.
    pub(crate) fn of(raw: RawHandle) -> Self {
        let of = PhantomData;
        Self { raw, of }
    }

    #[doc(hidden)]
    pub fn into_raw(self) -> RawHandle {
        self.raw
    }

    /// Blocks until the task has ended.
    ///
    /// # Errors
    /// Why there is no value: the task panicked, was cancelled, or was released unrun; or, on an
    /// own worker, it may not be run in place.
    pub fn join(self) -> Result<R, JoinError> {
        let ended = self.raw.task().wait(None);
        self.value(ended.unwrap_or_else(|| unreachable!("a wait without a limit has an outcome")))
    }

    /// Blocks until the task has ended, at most for so long by the pool's clock. Runs nothing in
    /// place.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// # use std::time::Duration;
    /// let slow = pool.spawn(|| 42)?;
    /// match slow.join_timeout(Duration::from_secs(5)) {
    ///     Ok(value) => println!("{}", value?),
    ///     Err(handle) => println!("still waiting: {}", handle.cancel()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The handle again, if the time was up; the task goes on.
    pub fn join_timeout(self, timeout: impl Into<Timeout>) -> Result<Result<R, JoinError>, Self> {
        let ended = self
            .raw
            .task()
            .wait(timeout.into().deadline(self.raw.task().pool.clock()));
        self.value_or_self(ended)
    }

    /// Takes the value if the task has ended. Never blocks.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let mut handle = pool.spawn(|| 42)?;
    /// let value = loop {
    ///     match handle.try_join() {
    ///         Ok(value) => break value?,
    ///         Err(unfinished) => handle = unfinished, // Something else can be done here.
    ///     }
    ///     # std::thread::yield_now();
    /// };
    /// assert_eq!(value, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The handle again, if it has not.
    pub fn try_join(self) -> Result<Result<R, JoinError>, Self> {
        let ended = self.raw.task().try_take();
        self.value_or_self(ended)
    }

    /// Whether the task has ended. One load.
    pub fn is_finished(&self) -> bool {
        self.raw.task().cell.is_ended()
    }

    /// Takes the task back if it has not started: `true` if so. O(1) amortised.
    ///
    /// Its room is free at once: the head of the wait queue is accepted before this returns. What
    /// it captured is dropped on this thread, and the handle ends with [`JoinError::Cancelled`].
    /// May call the wakers of futures that were accepted, and start a thread for one.
    ///
    /// `false`: it has started. If it has not ended it is asked to stop, which
    /// [`current`](crate::task::current)`().is_cancelled()` and the tokens that the task took from there
    /// show it; what it then returns is its value.
    ///
    /// ```
    /// use pool_core::{JoinError, Pool};
    ///
    /// let pool = Pool::builder().capacity(1).queue_depth(1).start_paused(true).build()?;
    /// let queued = pool.spawn(|| "too late")?;
    /// assert!(queued.cancel());
    /// assert!(matches!(queued.join(), Err(JoinError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) -> bool {
        self.raw.task().cancel()
    }

    fn value(&self, ended: Joined<Stored>) -> Joined<R> {
        ended.map(|stored| {
            let value = self.raw.task().cell.take_value(stored);
            value.expect(ITS_TYPE)
        })
    }

    fn value_or_self(self, ended: Option<Joined<Stored>>) -> Result<Joined<R>, Self> {
        match ended {
            Some(ended) => Ok(self.value(ended)),
            None => Err(self),
        }
    }
}

/// A handle of a task whose value is of any type. All that a [`JoinHandle`] does but to move the value:
/// it is compiled once.
pub struct RawHandle {
    /// `None` while it is dropped, having been made a [`TaskRef`].
    task: Option<TaskRef>,
}

/// A spawned task and its pool. Dropping it does nothing to the task.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
#[derive(Clone)]
pub struct TaskRef {
    cell: Arc<SpawnCell>,
    pool: Arc<dyn PoolRef>,
}

const ITS_TYPE: &str = "the value of a task is of its handle's type";
const ONCE: &str = "a handle is made a reference as the last thing";

impl RawHandle {
    pub(crate) fn new(cell: Arc<SpawnCell>, pool: Arc<dyn PoolRef>) -> Self {
        let task = Some(TaskRef { cell, pool });
        Self { task }
    }

    pub(crate) fn cell(&self) -> &Arc<SpawnCell> {
        self.task().cell()
    }

    /// The same without a drop that detaches: the caller does, or takes the outcome.
    ///
    /// # Panics
    /// Never: a handle is taken apart once.
    pub fn into_task(mut self) -> TaskRef {
        let task = self.task.take();
        task.expect(ONCE)
    }

    fn task(&self) -> &TaskRef {
        self.task.as_ref().expect(ONCE)
    }

    /// It is another pool that has accepted the task.
    pub(crate) fn set_pool(&mut self, pool: Arc<dyn PoolRef>) {
        self.task.as_mut().expect(ONCE).pool = pool;
    }
}

#[expect(clippy::missing_errors_doc, reason = "the task's own error")]
impl TaskRef {
    /// The task's cell.
    pub fn cell(&self) -> &Arc<SpawnCell> {
        &self.cell
    }

    /// Takes the value of a task that has ended.
    ///
    /// # Panics
    /// If the value is not of type `R`.
    pub fn take_value<R: 'static>(&self) -> Joined<R> {
        self.taken()
            .map(|stored| self.cell.take_value(stored).expect(ITS_TYPE))
    }

    /// Drops the value of a task that has ended. Panics if its destructor does.
    pub fn drop_value(&self) -> Joined<()> {
        self.taken().map(|stored| self.cell.drop_value(stored))
    }

    fn taken(&self) -> Joined<Stored> {
        let outcome = self.cell.take_or_wait(None);
        outcome.unwrap_or_else(|| unreachable!("it has ended"))
    }

    /// In a forked child the cell's lock may be held by a thread that is not there, and what it protects
    /// be half changed: it is neither taken nor dropped.
    fn check(&self) -> Joined<()> {
        self.pool.process().check(JoinError::Forked)
    }

    fn try_take(&self) -> Option<Joined<Stored>> {
        match self.check() {
            Ok(()) => self.cell.take_or_wait(None),
            Err(forked) => Some(Err(forked)),
        }
    }

    /// As [`JoinHandle::cancel`].
    pub fn cancel(&self) -> bool {
        if self.check().is_err() {
            return false;
        }
        let ours = self.withdraw(&mut || {
            self.cell.drop_claimed();
            Outcome::Cancelled
        });
        if !ours && !self.cell.is_ended() {
            self.cell.ask_to_stop();
        }
        ours
    }

    /// Takes the task out of the queue and ends it, if it has not started.
    fn withdraw(&self, end: &mut dyn FnMut() -> Outcome) -> bool {
        let ours = self.cell.claimed() == Claim::Unclaimed
            && Arc::clone(&self.pool).withdraw(&mut || self.cell.claim_for_handle(), end);
        if ours {
            self.cell.resolve(); // Step C4: room and figures show the end.
        }
        ours
    }

    fn wait(&self, deadline: Option<Instant>) -> Option<Joined<Stored>> {
        if let Err(forked) = self.check() {
            return Some(Err(forked));
        }
        if !self.cell.is_ended() {
            let taken_out = match self.cell.claimed() {
                Claim::Release => Some(JoinError::Released),
                Claim::Discard => Some(JoinError::Discarded),
                Claim::Unclaimed | Claim::Entry | Claim::Handle => None,
            };
            if let Some(why) = taken_out
                && self.pool.is_disposing()
            {
                // It would wait for the thread that it is.
                return Some(Err(why));
            }
            if deadline.is_none() && self.pool.is_own_worker() && !self.run_in_place() {
                return Some(Err(JoinError::WouldDeadlock));
            }
            look_before_join(|| self.cell.is_ended());
        }
        // A value that is there needs no parker.
        let ended = self.cell.is_ended();
        let value = ended.then(|| self.cell.take_or_wait(None)).flatten();
        value.or_else(|| promise::join(&*self.cell, self.pool.clock(), deadline))
    }

    /// Runs the task here, if it has not started: `Some(true)`; `Some(false)` if that is not
    /// allowed, `None` if it has started.
    pub fn help(&self) -> Option<bool> {
        // Others than the caller may ask it to stop: it has to be told apart from the current task.
        let part = || Frame::part(&self.cell);
        (self.cell.claimed() == Claim::Unclaimed).then(|| self.run_in_place_as(part))
    }

    /// Runs the task here, if it has not started. `false` if that is not allowed.
    fn run_in_place(&self) -> bool {
        self.run_in_place_as(|| ())
    }

    /// The same, while there is what `enter` returns.
    fn run_in_place_as<F>(&self, enter: impl Fn() -> F) -> bool {
        if self.cell.claimed() != Claim::Unclaimed {
            return true;
        }
        let may_nest = self.pool.may_nest();
        if may_nest {
            self.withdraw(&mut || {
                self.pool.nested(&mut || {
                    let _entered = enter();
                    self.cell.run_claimed(self.pool.context())
                })
            });
        }
        may_nest
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Joined<Stored>> {
        self.check()?;
        promise::poll(&*self.cell, context)
    }
}

impl Drop for RawHandle {
    fn drop(&mut self) {
        let Some(task) = &self.task else {
            return;
        };
        if task.check().is_err() {
            std::mem::forget(Arc::clone(&task.cell));
        } else {
            task.cell.detach();
        }
    }
}

impl<R: Send + 'static> Future for JoinHandle<R> {
    type Output = Result<R, JoinError>;

    /// Ready once the task has ended; polled again after that, it is ready with
    /// [`JoinError::Taken`].
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.raw.task().poll(context).map(|ended| self.value(ended))
    }
}

impl<R> fmt::Debug for JoinHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("pool", &self.raw.task().pool.context().name)
            .field("finished", &self.raw.task().cell.is_ended())
            .finish()
    }
}

impl fmt::Debug for RawHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawHandle").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use crate::{Pool, QueueDepth, WithinWorker};
    use testkit::Gate;

    /// Entries in the pool's queue, tombstones included.
    fn entries(pool: &Pool) -> usize {
        pool.core().state.lock().queue.len()
    }

    fn pool() -> Pool {
        let pool = Pool::builder()
            .capacity(1)
            .queue_depth(QueueDepth::Unlimited);
        pool.build().expect("it has a capacity")
    }

    #[testkit::test]
    fn a_hundred_thousand_children_joined_in_place_leave_few_entries_behind() {
        let pool = pool();
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            let joined = (0..100_000).map(|n| {
                let child = inner.spawn(move || n).expect("there is room");
                assert_eq!(child.join().expect("it is run in place"), n);
                entries(&inner)
            });
            let most = joined.max();
            (most, inner.queued(), inner.in_flight())
        });
        let (most, queued, in_flight) = outer.expect("there is room").join().expect("it ends");
        assert!(most < Some(100), "{most:?} entries");
        assert_eq!((queued, in_flight), (0, 1));
    }

    #[testkit::test]
    fn a_hundred_thousand_cancelled_tasks_among_others_are_swept_out_from_between_them() {
        let pool = pool();
        let (gate, held) = (Gate::new(), Gate::new());
        let wait = held.clone();
        pool.submit(move || wait.wait()).expect("there is room");
        held.wait_for_arrivals(1);
        let mut kept = Vec::new();
        for n in 0..100_000_u32 {
            let handle = pool.spawn(move || n).expect("there is room");
            if n % 100 == 0 {
                kept.push((n, handle));
            } else {
                assert!(handle.cancel());
            }
            let live = kept.len();
            assert_eq!(pool.queued(), live);
            assert!(
                entries(&pool) <= 2 * live + 600,
                "{} beside {live}",
                entries(&pool)
            );
        }
        drop(gate);
        held.open();
        for (n, handle) in kept {
            assert_eq!(handle.join().expect("it runs"), n);
        }
        // It lies behind the last tombstones: a pool may be idle before its worker has popped them.
        let last = pool.spawn(|| ()).expect("there is room");
        last.join().expect("it runs");
        assert_eq!((entries(&pool), pool.stats().cancelled), (0, 99_000));
    }

    #[testkit::test]
    fn a_task_at_a_full_pool_that_blocks_its_workers_joins_its_children_one_after_the_other() {
        let pool = Pool::builder().capacity(1).queue_depth(1);
        let pool = pool.within_worker(WithinWorker::Block).build();
        let pool = pool.expect("it has a capacity");
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            (0..1000_u32)
                .map(|n| inner.spawn(move || n).expect("there is room").join())
                .map(|joined| joined.expect("it is run in place"))
                .sum::<u32>()
        });
        let sum = outer.expect("there is room").join().expect("it ends");
        assert_eq!(sum, 499_500);
    }
}

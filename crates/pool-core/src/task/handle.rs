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

use crate::engine::runner::Accepts;
use crate::error::JoinError;
use crate::sched::load::Outcome;
use crate::sched::spin::look_before_join;
use crate::task::cell::{Claim, SpawnCell, Stored};
use crate::task::closures::Spawned;
use crate::task::current::Frame;
use crate::task::erased::Task;
use crate::task::promise::{self, Joined, Promised};
use crate::task::run::TaskContext;

/// A reference that keeps pools open: to a pool, or to a multi-pool.
pub(crate) type Open = Arc<dyn Any + Send + Sync>;

/// The part of a pool that task handles use.
pub(crate) trait PoolRef: Send + Sync {
    fn context(&self) -> &TaskContext;
    fn clock(&self) -> &dyn Clock;
    /// Whether the caller is a worker of the pool.
    fn is_own_worker(&self) -> bool;
    /// The process in which the workers exist.
    fn process(&self) -> Process;
    /// Whether the calling worker is below the nesting limit.
    fn may_nest(&self) -> bool;
    /// Whether the calling thread is disposing of tasks that it removed from the queue.
    fn is_disposing(&self) -> bool;
    /// Runs a closure one level deeper in this thread's nesting.
    fn nested(&self, run: &mut dyn FnMut() -> Outcome) -> Outcome;
    /// Removes a task from the queue for its handle and frees its room. `claim` is called in the section; if it returns
    /// `false`, nothing has happened. `end` then ends the task on this thread, and its outcome is counted.
    fn withdraw(
        self: Arc<Self>,
        claim: &mut dyn FnMut() -> bool,
        end: &mut dyn FnMut() -> Outcome,
    ) -> bool;
}

/// Handle of a spawned task: waits for its end, returns its value, or cancels it.
///
/// Can be joined by a thread, or awaited as a [`Future`] on any runtime. Dropping the handle detaches the task, which
/// still runs; its value is then dropped, and a panic of that drop is caught.
///
/// When a join returns, the pool has already freed the task's room and counted its end.
///
/// # On a worker of the same pool
/// [`join`](JoinHandle::join) runs a task that has not started in place, so a task can wait for the tasks it has
/// spawned without idling a worker. The task's room is free from then on, and it counts as in flight until it ends. A
/// join never runs any other task. If the task is running elsewhere the join blocks.
///
/// Tasks that run in place inside one another use stack. At the pool's [nesting limit](crate::Builder::nesting_limit)
/// the join is refused with [`JoinError::WouldDeadlock`], because the pool would deadlock if all workers blocked there.
/// The task still runs, and its value is dropped.
///
/// A poll on an own worker does the same as `join`, because a task that blocks on the handle (`block_on`) holds its
/// worker. So a time limit around the future may be exceeded there. A join with a time limit runs no task in place: it
/// waits for another worker to start the task.
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
    /// Creates the handle of a task whose value is an `R`.
    #[doc(hidden)]
    pub fn of(raw: RawHandle) -> Self {
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
    /// The reason why there is no value: the task panicked, was cancelled, was released unstarted, or may not be run in
    /// place on this worker.
    pub fn join(self) -> Result<R, JoinError> {
        let ended = self.raw.task().wait(None);
        self.value(ended.unwrap_or_else(|| unreachable!("a wait without a limit has an outcome")))
    }

    /// Blocks until the task has ended or the time limit, by the pool's clock, has passed. Runs no task in place.
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
    /// Returns the handle if the time limit has passed. The task is not affected.
    pub fn join_timeout(self, timeout: impl Into<Timeout>) -> Result<Result<R, JoinError>, Self> {
        let ended = self
            .raw
            .task()
            .wait(timeout.into().deadline(self.raw.task().pool.clock()));
        self.value_or_self(ended)
    }

    /// Returns the value if the task has ended. Never blocks.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let mut handle = pool.spawn(|| 42)?;
    /// let value = loop {
    ///     match handle.try_join() {
    ///         Ok(value) => break value?,
    ///         Err(unfinished) => handle = unfinished, // Do other work here.
    ///     }
    ///     # std::thread::yield_now();
    /// };
    /// assert_eq!(value, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the handle if the task has not ended.
    pub fn try_join(self) -> Result<Result<R, JoinError>, Self> {
        let ended = self.raw.task().try_take();
        self.value_or_self(ended)
    }

    /// Returns whether the task has ended. Costs one load.
    pub fn is_finished(&self) -> bool {
        self.raw.task().cell.is_ended()
    }

    /// Cancels the task. Returns `true` if it had not started. O(1) amortised.
    ///
    /// An unstarted task gives up its room at once: the head of the wait queue is accepted before this returns. Its
    /// captures are dropped on this thread, and the handle ends with [`JoinError::Cancelled`]. The call may run wakers of
    /// accepted futures, and may start a thread.
    ///
    /// A running task is asked to stop, and the call returns `false`. The task can check
    /// [`current`](crate::current)`().is_cancelled()`, or wait on the token of `current()`. The handle still returns the
    /// value that the task returns.
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

/// A task handle independent of the value's type. It does everything that a [`JoinHandle`] does except moving the value,
/// so that this code is compiled once.
pub struct RawHandle {
    /// `None` only while it is converted into a [`TaskRef`].
    task: Option<TaskRef>,
}

/// A spawned task and its pool. Dropping it does not affect the task.
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

    /// Returns the task's cell.
    pub fn cell(&self) -> &Arc<SpawnCell> {
        self.task().cell()
    }

    /// Declares that the task's entry is not in the pool's queue. A cancel drops the captures, and leaves the entry, its
    /// room and the count to the holder of the entry. A join does not run the task in place, because tasks before it may
    /// not have ended.
    #[must_use]
    pub fn keep_place(self) -> Self {
        self.cell().keep_place();
        self
    }

    /// Takes the task of a handle whose job was refused.
    ///
    /// # Panics
    /// If the task is not a `T`.
    pub fn into_refused<R: Accepts<T>, T>(self) -> T {
        R::task_of(self.cell().take_back())
    }

    /// Creates the task's entry in a queue.
    pub fn job(&self) -> Task {
        Task::new(Spawned(Arc::clone(self.cell())))
    }

    /// Converts the handle without detaching the task. The caller detaches it or takes the outcome.
    ///
    /// # Panics
    /// Never: only this call empties the handle, and it consumes it.
    pub fn into_task(mut self) -> TaskRef {
        let task = self.task.take();
        task.expect(ONCE)
    }

    /// Returns the task and its pool.
    ///
    /// # Panics
    /// Never, as [`into_task`](Self::into_task).
    pub fn task(&self) -> &TaskRef {
        self.task.as_ref().expect(ONCE)
    }

    /// Sets the pool that has accepted the task.
    pub(crate) fn set_pool(&mut self, pool: Arc<dyn PoolRef>) {
        self.task.as_mut().expect(ONCE).pool = pool;
    }
}

impl TaskRef {
    /// Returns the task's cell.
    pub fn cell(&self) -> &Arc<SpawnCell> {
        &self.cell
    }

    /// Takes the value of a task that has ended.
    ///
    /// # Errors
    /// The reason why there is no value.
    ///
    /// # Panics
    /// If the value is not an `R`.
    pub fn take_value<R: 'static>(&self) -> Joined<R> {
        self.taken()
            .map(|stored| self.cell.take_value(stored).expect(ITS_TYPE))
    }

    /// Drops the value of a task that has ended.
    ///
    /// # Errors
    /// The reason why there is no value.
    ///
    /// # Panics
    /// If the value's destructor does.
    pub fn drop_value(&self) -> Joined<()> {
        self.taken().map(|stored| self.cell.drop_value(stored))
    }

    fn taken(&self) -> Joined<Stored> {
        let outcome = self.cell.take_or_wait(None);
        outcome.unwrap_or_else(|| unreachable!("it has ended"))
    }

    /// Refuses handles in a forked child. A thread of the parent may have held the cell's lock during the fork, and its
    /// data may be inconsistent, so it is neither read nor dropped.
    fn check(&self) -> Joined<()> {
        self.pool.process().check(JoinError::Forked)
    }

    fn try_take(&self) -> Option<Joined<Stored>> {
        match self.check() {
            Ok(()) => self.cell.take_or_wait(None),
            Err(forked) => Some(Err(forked)),
        }
    }

    /// See [`JoinHandle::cancel`].
    pub fn cancel(&self) -> bool {
        // The task's worker does not exist in a forked child, so there is nothing to take back.
        if self.check().is_err() {
            return false;
        }
        let ours = self.withdraw(&mut || {
            self.cell.drop_claimed();
            Outcome::Cancelled
        });
        // After the claim has failed, so that an unstarted task is never asked to stop but taken back.
        if !ours && !self.cell.is_ended() {
            self.cell.ask_to_stop();
        }
        ours
    }

    /// Removes the task from the queue and ends it, if it has not started.
    fn withdraw(&self, end: &mut dyn FnMut() -> Outcome) -> bool {
        let ours = if self.cell.keeps_place() {
            let ours = self.cell.claim_for_handle();
            if ours {
                end();
            }
            ours
        } else {
            // Checked before the section: a task that has started must not cost the pool's lock.
            self.cell.claimed() == Claim::Unclaimed
                && Arc::clone(&self.pool).withdraw(&mut || self.cell.claim_for_handle(), end)
        };
        if ours {
            self.cell.resolve(); // Step C4, after the end was counted.
        }
        ours
    }

    fn wait(&self, deadline: Option<Instant>) -> Option<Joined<Stored>> {
        if let Err(forked) = self.check() {
            return Some(Err(forked));
        }
        if !self.cell.is_ended() {
            // Only without a limit, because a task in place runs for as long as it takes.
            if let Err(why) = self.may_wait(deadline.is_none()) {
                return Some(Err(why));
            }
            // Before the lock, because a short task ends within the time of a few polls.
            look_before_join(|| self.cell.is_ended());
        }
        // Checked first, because a value that is there needs no parker.
        let ended = self.cell.is_ended();
        let value = ended.then(|| self.cell.take_or_wait(None)).flatten();
        value.or_else(|| promise::join(&*self.cell, self.pool.clock(), deadline))
    }

    /// Runs the task on this thread if it has not started. Returns `None` if it has started or another thread is about to
    /// run it in place, `Some(false)` if the nesting limit forbids running it, and `Some(true)` otherwise.
    pub fn help(&self) -> Option<bool> {
        // Other threads may cancel the task itself, so the request must be kept apart from the current task's.
        let part = || Frame::part(&self.cell);
        let waits = self.cell.claimed() == Claim::Unclaimed && !self.cell.keeps_place();
        waits.then(|| self.run_in_place_as(part))
    }

    /// Runs the task on this thread if it has not started. Returns `false` if the nesting limit forbids it.
    fn run_in_place(&self) -> bool {
        self.run_in_place_as(|| ())
    }

    /// The same, while the guard returned by `enter` exists.
    fn run_in_place_as<F>(&self, enter: impl Fn() -> F) -> bool {
        if self.cell.claimed() != Claim::Unclaimed {
            return true;
        }
        // Asked before the claim: a claimed task must be run, however deep the nesting is.
        let may_nest = !self.cell.keeps_place() && self.pool.may_nest();
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

    /// Refuses waits of a thread for itself. With `helps`, an own worker runs the task if it has not started.
    fn may_wait(&self, helps: bool) -> Joined<()> {
        let taken_out = match self.cell.claimed() {
            Claim::Release => Some(JoinError::Released),
            Claim::Discard => Some(JoinError::Discarded),
            Claim::Unclaimed | Claim::Entry | Claim::Handle => None,
        };
        if let Some(why) = taken_out
            && self.pool.is_disposing()
        {
            // This thread removed the task and will end it, so it would wait for itself.
            return Err(why);
        }
        if helps && self.pool.is_own_worker() && !self.run_in_place() {
            return Err(JoinError::WouldDeadlock);
        }
        Ok(())
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Joined<Stored>> {
        self.check()?;
        if !self.cell.is_ended() {
            self.may_wait(true)?;
        }
        promise::poll(&*self.cell, context)
    }
}

impl Drop for RawHandle {
    fn drop(&mut self) {
        let Some(task) = &self.task else {
            return;
        };
        if task.check().is_err() {
            // The reference leaks, because the last one would drop a content that may be half changed.
            std::mem::forget(Arc::clone(&task.cell));
        } else {
            task.cell.detach();
        }
    }
}

impl<R: Send + 'static> Future for JoinHandle<R> {
    type Output = Result<R, JoinError>;

    /// Ready once the task has ended. On a worker of the same pool, runs the task if it has not started. A poll after
    /// the end returns [`JoinError::Taken`].
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

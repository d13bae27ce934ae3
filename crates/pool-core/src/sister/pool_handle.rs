//! A pool as seen by other crates of the workspace: calls common to [`group`](crate::sister::group)
//! and [`scheduler`](crate::sister::pool_handle).

use std::io;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};
use std::time::Instant;

use sync_shim::thread::{JoinHandle, ThreadOptions, spawn_thread};
use sync_shim::{Clock, Process};

use crate::config::{Capacity, OnFull};
use crate::engine::core::{Core, Target};
use crate::engine::wait::{Awaited, WaitFuture};
use crate::error::{Closed, SubmitError, WaitError};
use crate::sched::decide::Demand;
use crate::sched::effects::ReleaseListener;
use crate::sched::load::Outcome;
use crate::sched::state::{Next, State};
use crate::sched::waiters::WaiterEntry;
use crate::stats::Stats;
use crate::task::cell::SpawnCell;
use crate::task::erased::{Task, Work};
use crate::task::handle::{PoolRef, RawHandle};
use crate::task::options::{TaskOptions, WaitLimits};
use crate::task::run::{Resolve, TaskContext, TaskResult, Unrun};

/// A pool without an owner: keeps the pool in memory, but not open.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct PoolHandle(pub(crate) Arc<Core>);

impl Clone for PoolHandle {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl PoolHandle {
    /// The clock of all timeouts.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.config.clock
    }

    /// Number of the current generation. A reboot increments it; a release ends it.
    pub fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }

    /// Waits until that generation is released and every worker's thread has exited.
    ///
    /// # Errors
    /// As [`WorkerPool::wait_released_timeout`](crate::WorkerPool::wait_released_timeout), and
    /// [`Rebooted`](WaitError::Rebooted) if the pool is in a later generation.
    pub fn wait_for_end(
        &self,
        generation: u64,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.0.wait_for_end(generation, deadline)
    }

    /// Resolves once no task is in flight.
    pub fn wait_idle_async(
        &self,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + Unpin + use<> {
        WaitFuture::new(Arc::clone(&self.0), Awaited::Rest, None)
    }

    /// Resolves once that generation is released and no worker is left.
    pub fn wait_for_end_async(
        &self,
        generation: u64,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + Unpin + use<> {
        WaitFuture::new(Arc::clone(&self.0), Awaited::EndOf(generation), deadline)
    }

    /// Whether the calling thread is a worker of the pool, or of its group.
    pub fn is_own_worker(&self) -> bool {
        PoolRef::is_own_worker(&*self.0)
    }

    /// The process that the workers run in.
    pub fn process(&self) -> Process {
        self.0.process()
    }
}

/// Figures, each read under the pool's lock.
impl PoolHandle {
    /// Number of live workers.
    pub fn live(&self) -> usize {
        self.0.state.lock().live
    }

    /// Number of accepted tasks that have not started.
    pub fn queued(&self) -> usize {
        self.0.state.lock().queued()
    }

    /// Number of accepted tasks that have not ended.
    pub fn in_flight(&self) -> usize {
        self.0.state.lock().unfinished()
    }

    /// Number of workers that could still be started; `None` if unlimited.
    pub fn free(&self) -> Option<usize> {
        let guard = self.0.state.lock();
        let capacity = Capacity::from_bound(guard.capacity).limit()?;
        Some(capacity.saturating_sub(guard.live))
    }

    /// Maximum number of live workers.
    pub fn capacity(&self) -> Capacity {
        Capacity::from_bound(self.0.state.lock().capacity)
    }

    /// Number of threads and futures that wait for room.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().wait_queue.len()
    }

    /// Whether the pool is released.
    pub fn is_released(&self) -> bool {
        !self.0.state.lock().open
    }

    /// Returns a snapshot of the statistics.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Gives back reserved room that no permit holds.
    pub fn give_back_room(&self) {
        self.0.give_back_room();
    }

    /// Ends the pool as the drop of the last handle does.
    pub fn end(&self) {
        self.0.end();
    }
}

impl PoolHandle {
    /// See [`Admit::recorded`](crate::internals::Admit::recorded).
    pub fn recorded(&self, job: Task) -> Task {
        self.0.recorded(job)
    }
}

/// Calls for a queue of pieces that a few of the pool's tasks drain.
impl PoolHandle {
    /// The context that tasks run in: the pool's name, hooks and clock.
    pub fn context(&self) -> &TaskContext {
        PoolRef::context(&*self.0)
    }

    /// Starts a thread with the name, the stack size and the gate of the pool. It is no worker.
    ///
    /// # Errors
    /// The refusal of the gate or of the operating system.
    pub fn start_thread(&self, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle> {
        let config = &self.0.config;
        let options = ThreadOptions {
            name: Some(&self.0.context.name),
            stack_size: config.stack_size,
            gate: config.thread_gate.as_deref(),
        };
        spawn_thread(options, body)
    }

    /// Accepts a job that continues a task which a worker runs, or lets it wait for room in the wait queue while the caller goes
    /// on. A released pool accepts it, too, as long as it has a worker and does not discard tasks.
    ///
    /// # Errors
    /// As [`accept`](Self::accept). `Full` only by a member of a group: the job would wait there although another has room. The
    /// job is dropped.
    pub fn line_up(&self, job: Task) -> Result<(), SubmitError> {
        let mut job = Some(job);
        while let Some(asks) = job.take() {
            // A rejected job is returned, because its drop is user code.
            let admitted = self.0.admit(asks, |state, why, job| match why {
                // In the section that found the pool full: otherwise room freed in between would not reach the task.
                Closed::Full if state.load_stats.is_none() => {
                    state.enqueue_waiter(WaiterEntry::of_continuation(job));
                    None
                }
                why => Some((why, job)),
            });
            let Err(Some((why, rejected))) = admitted else {
                return Ok(());
            };
            job = Some(rejected);
            let asks_again = self.0.section(|state, effects| {
                if !matches!(why, Closed::Released) || state.discards {
                    return false;
                }
                // While a task runs, its worker is live, so its pool has not ended. Another member of a group may have.
                if !state.open && state.live > 0 {
                    job.take()
                        .into_iter()
                        .for_each(|job| state.accept(job, effects));
                }
                state.open // It was rebooted.
            });
            if !asks_again && let Some(_job) = job.take() {
                return Err(why.reason().with(()));
            }
        }
        Ok(())
    }

    /// Demand for workers, and the capacity. Takes a section, which also updates the flag that
    /// [`is_wanted`](Self::is_wanted) reads.
    pub fn demand(&self) -> (Demand, usize) {
        let demand = |state: &mut State<_>| (state.demand(), state.capacity);
        self.0.state.section(demand)
    }

    /// Whether a queued task waits for a busy worker. Takes a section.
    pub fn is_saturated(&self) -> bool {
        self.0.state.section(|state| state.is_saturated())
    }

    /// Whether other work needs a worker that is running a task. Takes no lock.
    pub fn is_wanted(&self) -> bool {
        self.0.state.is_wanted()
    }

    /// Whether the pool was full at its last section. Takes no lock.
    pub fn is_full(&self) -> bool {
        self.0.state.is_full()
    }

    /// Whether the pool has a worker, according to the group's load statistics.
    pub fn has_worker(&self) -> bool {
        let load_stats = self.0.load_stats.as_ref();
        load_stats.is_some_and(|load_stats| load_stats.has_worker())
    }
}

/// Calls for tasks that wait outside the queue, with a permit each, and run one after the other inside one of the
/// pool's tasks.
impl PoolHandle {
    /// Returns the admission of tasks to this pool.
    pub fn admit(&self) -> &Arc<Core> {
        &self.0
    }

    /// Creates the job of a closure without a handle, and the limits of its wait for room.
    pub fn job<F, T>(
        &self,
        closure: F,
        options: Option<TaskOptions>,
    ) -> (Task, Option<WaitLimits<'static>>)
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Task::closure(closure).with_options(options, &self.0.context)
    }

    /// Creates the handle of a closure. Its [job](RawHandle::job) is not yet in a pool.
    pub fn spawned<F, T>(&self, closure: F, options: Option<TaskOptions>) -> RawHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let record = self.0.context.record_of(options);
        RawHandle::new(
            SpawnCell::new(closure, record.map(Box::new)),
            Arc::clone(&self.0) as _,
        )
    }

    /// Runs a job on the calling worker, inside one of the pool's tasks. Does not unwind.
    #[inline]
    pub fn run(&self, job: Task) -> TaskResult {
        Task::run(ManuallyDrop::new(job), &self.0.context)
    }

    /// Ends a job that does not run. Does not unwind.
    pub fn drop_unrun(&self, job: Task) -> TaskResult {
        // Fails for a task that its handle has cancelled before, which the result shows.
        job.seize(Unrun::Released);
        job.release()
    }

    /// See [`Admit::target`](crate::internals::Admit::target).
    #[inline]
    pub fn target(&self) -> Target<'_> {
        Target(&self.0)
    }

    /// Accepts the job if that needs no decision: the pool is busy and has room. Runs no user code, and may be
    /// called under a lock.
    ///
    /// # Errors
    /// The job.
    #[inline]
    pub fn try_enter(&self, job: Task) -> Result<(), Task> {
        match self.0.credit() {
            Some(credit) => {
                // Step S2.
                let searchers = credit.enter(job);
                self.0.entered(searchers);
                Ok(())
            }
            None => Err(job),
        }
    }

    /// Reserves room if that needs no decision. The caller must use it, as if a [`permit`](Self::permit) had been
    /// [kept](crate::Permit::keep).
    #[inline]
    pub fn try_reserve(&self) -> bool {
        self.0.try_reserve()
    }

    /// Reserves room as [`WorkerPool::reserve`](crate::WorkerPool::reserve) does, with the limits of a task.
    ///
    /// # Errors
    /// As that call.
    pub fn reserve_room(
        &self,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<(), SubmitError> {
        let reserved = self.0.reserve(on_full, limits);
        reserved.map_err(|reason| reason.with(()))
    }

    /// Step P2: queues a job with reserved room.
    pub fn redeem(&self, job: Task) {
        self.0.section(|state, effects| state.redeem(job, effects));
    }

    /// Step P5: counts the end of a task that ran with reserved room inside another task, and frees the room, if
    /// that needs no decision. Otherwise does nothing and returns `false`: then the other task must go to the queue
    /// before it starts anything else. So it must if it `yields` and tasks are queued.
    #[inline]
    pub fn try_end_permitted(&self, outcome: Outcome, yields: bool) -> bool {
        self.0.state.try_end_permitted(outcome, yields)
    }

    /// Step P6: the same, with a decision, which may run user code.
    pub fn end_permitted(&self, outcome: Outcome) {
        self.0
            .section(|state, effects| state.end_permitted(outcome, effects));
    }

    /// As step W9: queues a job, in front, with the room of the task that the calling worker runs. That task's outcome
    /// must be [`Requeued`](Outcome::Requeued).
    pub fn requeue(&self, job: Task) {
        self.0
            .section(|state, effects| state.put_off(Next::Run(job), effects));
    }

    /// Whether a `release_now` drops tasks that have not started. Exact for a job that was queued after it.
    #[inline]
    pub fn discards(&self) -> bool {
        self.0.state.discards()
    }
}

// Interface for a scheduler: tasks that their owner can take back at any time, an entry into the
// wait queue that neither blocks nor is refused for lack of room, and a callback at the release.
//
// # Invariants
// 1. An entered scheduled task is run or released once, or it still has its place in the wait
//    queue.
// 2. Its waiter entry stands in the pool's only wait queue, first come, first served. The figures
//    count it as waiting, but `max_waiting` does not apply to it.
// 3. A release listener is called once, with no lock held, after the tasks of the wait queue were
//    given back.

/// A task shared by the pool and the scheduler that entered it. The scheduler may have taken its
/// body back.
pub trait ScheduledTask: Resolve + 'static {
    /// Called by the worker that takes the task. Runs it, unless its body was taken back. Must not
    /// unwind.
    fn run(self: Arc<Self>, context: &TaskContext) -> TaskResult;
    /// Called when `release_now` removes the task from the queue. Must not unwind.
    fn release(self: Arc<Self>) -> TaskResult;
}

struct Entry(Arc<dyn ScheduledTask>);

impl Work for Entry {
    fn run(self, context: &TaskContext) -> TaskResult {
        self.0.run(context)
    }

    fn release(self) -> TaskResult {
        self.0.release()
    }
}

/// Outcome of entering a scheduled task.
#[expect(
    missing_debug_implementations,
    reason = "never leaves `scheduled-pool`"
)]
pub enum Entered {
    /// There was room: the task will run.
    Accepted,
    /// The task waits for room.
    Waiting(Queued),
    /// The pool is released.
    Released,
    /// The pool has room but no worker, and the operating system refused to start the first.
    NoThread(io::Error),
}

/// A scheduled task's place in the wait queue. Dropping it removes the task, if it still stands
/// there.
#[expect(
    missing_debug_implementations,
    reason = "never leaves `scheduled-pool`"
)]
pub struct Queued {
    core: Arc<Core>,
    entry: Arc<WaiterEntry<Task>>,
    number: u64,
}

impl PoolHandle {
    /// Enters a scheduled task without waiting for room. May start a thread, or wait for the start
    /// of the first.
    pub fn enter(&self, task: Arc<dyn ScheduledTask>) -> Entered {
        let job = Task::new(Entry(task));
        // Holds a rejected job until the lock is unlocked, because its drop is user code.
        let admitted = self.0.admit(job, |state, why, job| match why {
            Closed::Full => {
                // In the section that found the pool full: otherwise room freed in between would not
                // reach the task.
                let entry = WaiterEntry::of_scheduled_task(job);
                let number = state.enqueue_waiter(Arc::clone(&entry));
                let core = Arc::clone(&self.0);
                (
                    Entered::Waiting(Queued {
                        core,
                        entry,
                        number,
                    }),
                    None,
                )
            }
            Closed::Released => {
                state.counts.refused += 1;
                (Entered::Released, Some(job))
            }
            // Not counted as refused, because the scheduler retries.
            Closed::NoThread(error) => (Entered::NoThread(error), Some(job)),
        });
        admitted.map_or_else(|(entered, _)| entered, |()| Entered::Accepted)
    }

    /// Registers `listener` for the release of that [`generation`](Self::generation). Returns
    /// `false` if it has been released already.
    pub fn on_release(&self, listener: Weak<dyn ReleaseListener>, generation: u64) -> bool {
        self.0.state.section(|state| {
            let is_open = state.open && state.generation == generation;
            if is_open {
                let listeners = &mut state.release_listeners;
                if listeners.len() == listeners.capacity() {
                    // Removes listeners of schedulers that are gone. This only frees memory, so it
                    // may run under the lock. Afterwards half of the places are free, so the
                    // amortised cost is O(1).
                    listeners.retain(|other| other.strong_count() > 0);
                    listeners.shrink_to(2 * listeners.len());
                    listeners.reserve(listeners.len());
                }
                listeners.push(listener);
            }
            is_open
        })
    }
}

impl Queued {
    /// Whether a release has given the scheduled task back.
    pub fn is_returned(&self) -> bool {
        self.entry.is_returned()
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if self.core.process().is_current() {
            drop(self.core.leave_wait_queue(&self.entry, self.number)); // The lock is free again.
            // A returned task refers to its owner, which may own this place: breaks the cycle.
            drop(self.entry.outcome());
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod scheduler_tests {
    use super::*;
    use crate::Pool;

    struct Deaf;
    impl ReleaseListener for Deaf {
        fn released(&self) {}
    }

    #[testkit::test]
    fn the_watches_of_schedulers_that_are_gone_do_not_pile_up() {
        let built = Pool::builder().capacity(1).build();
        let pool = built.expect("a capacity is all that is needed");
        for _ in 0..100 {
            let listener = Arc::new(Deaf) as Arc<dyn ReleaseListener>;
            assert!(PoolHandle::of(&pool).on_release(Arc::downgrade(&listener), 0));
        }
        assert!(pool.core().state.lock().release_listeners.capacity() <= 4);
    }
}

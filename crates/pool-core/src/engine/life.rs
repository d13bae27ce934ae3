//! Release, waits for an idle pool and for its end, reboot, change of the capacity.

use std::sync::{Arc, Weak};
use std::time::Instant;

use sync_shim::thread::JoinHandle;

use crate::config::{Capacity, DiscardedTask, DropPolicy};
use crate::engine::core::Core;
use crate::error::{TuneError, WaitError};
use crate::foreign::{drop_quietly, guarded};
use crate::sched::effects::Effects;
use crate::sched::event::EventWait;
use crate::sched::load::Outcome;
use crate::sched::state::State;
use crate::task::current::{self, Compensate};
use crate::task::erased::Task;
use crate::task::handle::PoolRef;
use crate::task::run::{TaskResult, Unrun};
use std::panic::resume_unwind;

/// Ends a task that was removed unstarted. Does not unwind.
pub type Disposal<'a> = &'a mut dyn FnMut(Task) -> TaskResult;

/// State of a pool that is about to end.
enum End {
    Wait,
    /// No worker is left. These threads have to be joined.
    Join(Vec<JoinHandle>),
}

impl Core {
    /// Stops accepting tasks. Returns whether the pool was open, and the generation that ends.
    pub(crate) fn release(self: &Arc<Self>) -> (bool, u64) {
        if !self.process().is_current() {
            // A forked child has no workers, and a thread of the parent may have held the lock.
            return (false, 0);
        }
        self.section(State::release)
    }

    /// Releases the pool, removes the unstarted tasks and calls `end` with each.
    pub(crate) fn release_now(self: &Arc<Self>, end: Disposal<'_>) -> usize {
        if !self.process().is_current() {
            return 0;
        }
        let jobs = self.section(|state, effects| self.take_unstarted(state, effects));
        self.dispose(jobs, end)
    }

    /// The section of a `release_now`. The caller disposes of the returned jobs.
    pub(crate) fn take_unstarted(
        &self,
        state: &mut State<Task>,
        effects: &mut Effects<Task>,
    ) -> impl Iterator<Item = Task> + use<> {
        // Both in one section: no worker takes a task between the release and the removal.
        state.release(effects);
        // Cancelled after the section, because a token wakes waiters, which is user code.
        let stop = self.context.stop.ask();
        effects.call_later(move || _ = stop.cancel());
        self.state.show_discards(true);
        state.take_unstarted(&|job| job.seize(Unrun::Released))
    }

    /// Ends the jobs of [`take_unstarted`](Core::take_unstarted). Returns how many of them had not been claimed.
    pub(crate) fn dispose(
        self: &Arc<Self>,
        jobs: impl Iterator<Item = Task>,
        end: Disposal<'_>,
    ) -> usize {
        let mut released = 0;
        for job in jobs {
            let result = end(job);
            released += usize::from(result.outcome == Outcome::Released);
            if !result.outcome.is_settled() {
                self.section(|state, effects| state.disposed(result.outcome, effects));
            }
            // After the section that counts it: a caller who sees the handle resolved finds it in the figures.
            if let Some(handle) = result.resolve {
                handle.resolve();
            }
        }
        // Once for all jobs, as `take_unstarted` has recorded the thread once. Until then a destructor that waits for the pool is
        // refused.
        self.state.section(State::end_disposal);
        released
    }

    /// Pauses the pool. Returns `false` if it cannot be, as `State::pause`.
    pub(crate) fn pause(&self) -> bool {
        self.state.section(State::pause)
    }

    /// Resumes the pool. Returns `false` if it was not paused.
    pub(crate) fn resume(self: &Arc<Self>) -> bool {
        self.section(State::resume)
    }

    /// Opens a released pool again, ended or not. Returns `false` if the pool is open.
    pub(crate) fn reboot(self: &Arc<Self>) -> bool {
        self.section(|state, effects| self.open_again(state, effects))
    }

    /// The section of a reboot.
    pub(crate) fn open_again(&self, state: &mut State<Task>, effects: &mut Effects<Task>) -> bool {
        let was_released = state.reboot(effects);
        if was_released {
            // In the section, so that no new task sees the stop request of the old generation.
            self.state.show_discards(false);
            self.context.stop.reset();
        }
        was_released
    }

    pub(crate) fn tune(self: &Arc<Self>, capacity: Capacity) -> Result<(), TuneError> {
        self.section(|state, effects| state.tune(capacity, effects))
    }

    /// Waits until no task is in flight.
    pub(crate) fn wait_idle(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.may_wait()?;
        // Created before the section, because allocating under the lock would hold up other threads.
        let mut rest = EventWait::of_thread();
        let is_idle = self.state.section(|state| {
            // A drop or hook of this thread's own disposal makes the call: it would wait for itself.
            if state.is_disposed_of_here() {
                return Err(WaitError::WouldDeadlock);
            }
            let is_idle = state.unfinished() == 0;
            if !is_idle {
                rest.enter(&mut state.on_idle);
            }
            Ok(is_idle)
        })?;
        if is_idle || rest.wait_until(self.clock(), deadline) {
            return Ok(());
        }
        // The pool may have become idle between the timeout and the lock.
        let came = self.state.section(|state| rest.leave(&mut state.on_idle));
        came.then_some(()).ok_or(WaitError::TimedOut)
    }

    /// Waits until the pool is released and every worker's thread has ended and been joined.
    pub(crate) fn wait_released(
        self: &Arc<Self>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.may_wait()?;
        let generation = self.state.lock().generation;
        self.wait_for_end(generation, deadline)
    }

    /// Releases the pool and waits for its end. Reports a reboot that comes before the end.
    pub(crate) fn release_and_wait(
        self: &Arc<Self>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.process().check(WaitError::Forked)?;
        // The generation of the release itself, so that a reboot before the wait begins is reported.
        let (_, generation) = self.release();
        self.wait_for_end(generation, deadline)
    }

    pub(crate) fn wait_for_end(
        self: &Arc<Self>,
        generation: u64,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.may_wait()?;
        loop {
            let mut event = EventWait::of_thread();
            let end = self.state.section(|state| {
                // First, because a rebooted pool may be released again, and that is not the end that this caller waits for.
                if state.generation != generation {
                    return Err(WaitError::Rebooted);
                }
                // Only one waiter joins; the others wait for it, so that all return after the last thread has ended.
                if state.joining || !state.view().ended() {
                    if state.is_disposed_of_here() {
                        return Err(WaitError::WouldDeadlock);
                    }
                    event.enter(&mut state.on_end);
                    return Ok(End::Wait);
                }
                let threads = state.ending.take_all();
                // Set in the section that takes the threads, so that a second waiter does not return before they are joined.
                state.joining = !threads.is_empty();
                Ok(End::Join(threads))
            })?;
            if let End::Join(threads) = end {
                self.join_all(threads);
                return Ok(());
            }
            if !event.wait_until(self.clock(), deadline)
                && !self.state.section(|state| event.leave(&mut state.on_end))
            {
                return Err(WaitError::TimedOut);
            }
        }
    }

    /// Joins the remaining threads of a pool without workers. Each may join others as its last act.
    fn join_all(self: &Arc<Self>, threads: Vec<JoinHandle>) {
        if threads.is_empty() {
            return;
        }
        let count = threads.len();
        for thread in threads {
            let _ = thread.join(); // An error is impossible, because a worker's body does not unwind.
        }
        self.section(|state, effects| {
            state.joining = false;
            state.joined(count, effects);
            // Wakes the waiters that found `joining` set.
            effects.set_all(&mut state.on_end);
        });
    }

    /// Refuses waits that could not end: a worker would wait for itself, a forked child for threads that do not exist.
    // A caller that waits for its own disposal is found later, in the section of the wait.
    fn may_wait(&self) -> Result<(), WaitError> {
        if self.is_own_worker() {
            Err(WaitError::WouldDeadlock)
        } else {
            self.process().check(WaitError::Forked)
        }
    }

    /// Ends the pool as its last handle is dropped. Does not unwind, so it is safe during a panic.
    pub(crate) fn end(self: &Arc<Self>) {
        if !self.process().is_current() {
            // A thread of the parent, which does not exist here, may hold the lock. The queued tasks leak, because they
            // may borrow from a scope that has ended.
            std::mem::forget(Arc::clone(self));
            return;
        }
        (self.installed.end)(self);
    }

    /// The end of a pool with [`DropPolicy::Drain`].
    pub(crate) fn drain(self: &Arc<Self>) {
        self.release();
    }

    /// Returns the end of a pool with that policy.
    pub(crate) fn end_by(policy: DropPolicy) -> fn(&Arc<Self>) {
        match policy {
            DropPolicy::Drain => Self::drain,
            DropPolicy::Join => |core| {
                // On a worker of this pool the wait is refused, because it would wait for itself. The release remains.
                let _ = core.release_and_wait(None);
            },
            DropPolicy::Discard => |core| {
                // USER CODE: captures of unstarted tasks, and their wakers. The tasks are unfinished until these are dropped.
                let discarded = guarded(|| core.release_now(&mut Task::release));
                debug_assert!(discarded.is_ok(), "release_now calls nothing unguarded");
            },
        }
    }
}

impl Core {
    /// Starts `workers` workers; some may have expired on return. If the system refuses one, the pool is released and
    /// the started workers end.
    pub(crate) fn start_ahead(self: &Arc<Self>, workers: usize) -> std::io::Result<()> {
        for _ in 0..workers {
            // Reserved as by a submitter, because `start_reserved` ends a reservation.
            self.state.section(|state| state.starting = true);
            let started = self.start_reserved(|_, _, started| started);
            if started.is_err() {
                // Nobody else has a handle yet, so the wait cannot fail with a reboot or a fork.
                let _ = self.release_and_wait(None);
                return started;
            }
        }
        Ok(())
    }
}

// Discards tasks for which a full pool has no room.
//
// The call's [`OnFull`](crate::OnFull) and `sched/decide.rs` say when.
//
// # Invariant
// A discarded task has been accepted. The section that found the pool full removes it and claims it from its handle.
// It is unfinished until the hook was called and its captures are dropped, with no lock held; then it is counted and
// its handle resolved.

/// Tasks that a section removed in order to discard them.
pub(crate) struct Discards<J> {
    task: J,
    /// Tombstones that preceded the task in the queue.
    tombstones: Vec<J>,
}

/// The policies that discard, as a builder with a discard hook installs them.
pub(crate) struct Discarding {
    pub(crate) replace_oldest: fn(&mut State<Task>, Task) -> Discards<Task>,
    pub(crate) discard_newest: fn(&mut State<Task>, Task) -> Discards<Task>,
    pub(crate) discard: fn(&Arc<Core>, Discards<Task>),
}

impl Discarding {
    pub(crate) const ALL: &'static Self = &Self {
        replace_oldest: Core::replace_oldest,
        discard_newest: Core::discard_newest,
        discard: Core::discard,
    };
}

impl Core {
    pub(crate) fn discarding(&self) -> &'static Discarding {
        let installed = self.installed.discarding;
        installed.expect("a call that may discard is refused if there is no discard hook")
    }

    /// Queues the job in place of the oldest discardable task. Discards the job itself if there is none.
    pub(crate) fn replace_oldest(state: &mut State<Task>, job: Task) -> Discards<Task> {
        let (oldest, tombstones) = state.take_oldest(&|job| job.name().is_some(), &|job| {
            job.seize(Unrun::Discarded)
        });
        match oldest {
            Some(task) => {
                state.replace(job);
                Discards { task, tombstones }
            }
            // The tombstones have left the queue in any case, so they must be dropped with the new task.
            None => Discards {
                tombstones,
                ..Self::discard_newest(state, job)
            },
        }
    }

    /// Accepts the job and discards it.
    pub(crate) fn discard_newest(state: &mut State<Task>, task: Task) -> Discards<Task> {
        // Nobody else can have claimed it: its handle does not exist before the call returns. The claim tells `release` why.
        task.seize(Unrun::Discarded);
        state.begin_disposal();
        Discards {
            task,
            tombstones: Vec::new(),
        }
    }

    /// Ends the removed tasks, with no lock held.
    pub(crate) fn discard(self: &Arc<Self>, discards: Discards<Task>) {
        let Discards { task, tombstones } = discards;
        // Nested, because a hook or a destructor that submits to its own full pool discards again. Without the
        // nesting limit that could go on until the stack overflows.
        let mut task = Some((task, tombstones));
        let mut result = None;
        self.nested(&mut || {
            let (task, tombstones) = task.take().expect("it is discarded once");
            result = self.end_discarded(task, tombstones).resolve;
            Outcome::Discarded
        });
        self.section(|state, effects| {
            state.disposed(Outcome::Discarded, effects);
            state.end_disposal();
        });
        // After the section that counts it: a caller who sees the handle resolved finds it in the figures.
        if let Some(handle) = result {
            handle.resolve();
        }
    }

    /// Calls the hook, then drops the task's captures.
    fn end_discarded(&self, task: Task, tombstones: Vec<Task>) -> TaskResult {
        if let Some(hook) = &self.config.discard_hook {
            let discarded = DiscardedTask {
                pool: &self.context.name,
                task: task.name().unwrap_or_default(),
                name: task.given_name(),
            };
            // USER CODE: the discard hook, on the discarding thread. The task is unfinished until it returns, so its waits for
            // the pool return `WouldDeadlock`.
            self.context.call_hook(|| hook(&discarded));
        }
        drop_quietly(tombstones); // They may be the last references to their tasks, whose drop must not unwind.
        task.release()
    }
}

// Declared blocking: a task that blocks lets the pool have another worker meanwhile.
//
// The pool behaves as if its capacity were one higher, up to `max_compensation`. The sections are those of a change
// of the capacity (`sched/state.rs`, steps B1 and B2 of `PROTOCOL.md`). When the task continues any excess
// worker may end, not only the additional one.

impl Core {
    /// Returns the pool as a blocking task sees it. `None` if blocking tasks are not replaced.
    pub(crate) fn compensating(self: &Arc<Self>) -> Option<Weak<dyn Compensate>> {
        (self.config.max_compensation > 0).then(|| Arc::downgrade(self) as _)
    }
}

impl Compensate for Core {
    fn begin_blocking(self: Arc<Self>) -> bool {
        // In a child that a worker has forked, another worker may hold the lock for ever.
        let begins = self.process().is_current() && self.section(State::begin_blocking);
        drop_quietly(self); // Perhaps the last reference, at the end of a thread, where a panic must not escape.
        begins
    }

    fn end_blocking(self: Arc<Self>) {
        if self.process().is_current() {
            self.section(State::end_blocking);
        }
        drop_quietly(self); // As above.
    }
}

/// Runs `block`, a closure that waits for a long time: for a disk, a server, a channel, or another task that is queued
/// behind this one. In a task of a pool, the pool may have one more worker, and one more accepted task, meanwhile, up to
/// [`max_compensation`](crate::Builder::max_compensation) (16 by default) of each.
///
/// The pool behaves as if its capacity were raised by one and lowered again afterwards. A waiting submitter may get the
/// room, and a worker may be started for a queued task. When `block` returns, an idle excess worker ends at once;
/// otherwise the first excess worker ends after its task.
///
/// `blocking` only runs `block` on a thread that is not a worker, inside another `blocking`, and while
/// `max_compensation` other tasks are blocking. The reported capacity and `free` do not change.
///
/// ```
/// use pool_core::Pool;
/// use std::sync::mpsc;
///
/// let pool = Pool::builder().capacity(1).build()?;
/// let (sender, receiver) = mpsc::channel();
/// let waits = pool.spawn(move || pool_core::blocking(|| receiver.recv()))?;
/// pool.submit(move || sender.send(7))?; // The only worker waits for it.
/// assert_eq!(waits.join()??, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # When not to use it
/// For waits of microseconds, because a thread may be started for each of them. If all tasks block all the time, raise
/// the [capacity](crate::Builder::capacity) instead.
///
/// # Panics
/// Resumes a panic of `block`, after the additional worker has been given back.
///
/// # Cost
/// Two sections of the pool's lock. Their effects run in this call: wakers of futures that got the room, and the gate
/// of a thread that is started.
///
/// Modelled on Java's `ForkJoinPool.managedBlock`.
#[doc(alias = "managedBlock")]
#[doc(alias = "ManagedBlocker")]
#[doc(alias = "block_in_place")]
pub fn blocking<T>(block: impl FnOnce() -> T) -> T {
    let Some(worker) = current::worker() else {
        return block();
    };
    let Some(pool) = worker.start_blocking() else {
        return block();
    };
    if !Arc::clone(&pool).begin_blocking() {
        worker.stop_blocking();
        drop_quietly(pool); // As in `begin_blocking`: a panic must not escape before `block` has run.
        return block();
    }
    let result = guarded(block);
    pool.end_blocking();
    worker.stop_blocking();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::time::Duration;

    use sync_shim::Parker;

    use crate::{Pool, WaitError};

    #[testkit::test]
    fn a_wait_whose_time_is_up_takes_its_notice_back_and_ignores_a_token_of_another_wait() {
        let pool = Pool::builder().capacity(1).build();
        let pool = pool.expect("the settings are sound");
        let gate = testkit::Gate::new();
        let held = gate.clone();
        pool.try_submit(move || held.wait()).expect("there is room");
        for _ in 0..10 {
            Parker::of_thread().unpark();
            let waited = pool.wait_idle_timeout(Duration::ZERO);
            assert_eq!(waited, Err(WaitError::TimedOut));
            Parker::of_thread().unpark();
            let waited = pool.wait_released_timeout(Duration::ZERO);
            assert_eq!(waited, Err(WaitError::TimedOut));
        }
        let guard = pool.core().state.lock();
        assert_eq!((guard.on_idle.len(), guard.on_end.len()), (0, 0));
        drop(guard);
        gate.open();
        pool.wait_idle().expect("it is no worker of the pool");
    }
}

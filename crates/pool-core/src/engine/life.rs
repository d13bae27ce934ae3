//! Releasing, waiting for the end or for rest, rebooting, tuning.

use std::sync::Arc;
use std::time::Instant;

use sync_shim::thread::JoinHandle;

use crate::capacity::Capacity;
use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::error::{TuneError, WaitError};
use crate::foreign::{drop_quietly, guarded};
use crate::sched::effects::Effects;
use crate::sched::event::EventWait;
use crate::sched::state::State;
use crate::task::handle::PoolRef;
use crate::task::run::{Outcome, Unrun};

/// What a look at a pool finds that is to end.
enum End {
    Wait,
    /// Nothing runs any more: these are to be joined.
    Join(Vec<JoinHandle>),
}

impl<R: Runner> Core<R> {
    /// Stops acceptance. Whether it was open, and which generation ends.
    pub(crate) fn release(self: &Arc<Self>) -> (bool, u64) {
        if !self.process().is_current() {
            return (false, 0); // There is nothing to release.
        }
        self.section(State::release)
    }

    /// Releases, and takes out what has not started. Calls `keep` with each task's item.
    pub(crate) fn release_now(self: &Arc<Self>, keep: impl FnMut(R::Item)) -> usize {
        if !self.process().is_current() {
            return 0;
        }
        let jobs = self.section(|state, effects| self.take_unstarted(state, effects));
        self.dispose(jobs, keep)
    }

    /// A `release_now`'s section; the jobs that it takes out are to be disposed of.
    pub(crate) fn take_unstarted(
        &self,
        state: &mut State<R::Job>,
        effects: &mut Effects<R::Job>,
    ) -> impl Iterator<Item = R::Job> + use<R> {
        state.release(effects);
        effects.push_cancel(self.context.stop.ask());
        state.take_unstarted(&|job| self.runner.seize(job, Unrun::Released))
    }

    /// Ends what [`take_unstarted`](Core::take_unstarted) took out for this thread: how many were
    /// still there to be run.
    pub(crate) fn dispose(
        self: &Arc<Self>,
        jobs: impl Iterator<Item = R::Job>,
        mut keep: impl FnMut(R::Item),
    ) -> usize {
        let mut released = 0;
        for job in jobs {
            let (result, item) = self.runner.release(job);
            item.into_iter().for_each(&mut keep);
            released += usize::from(result.outcome == Outcome::Released);
            if !result.outcome.is_settled() {
                self.section(|state, effects| state.disposed(result.outcome, effects));
            }
            // The figures show the end: now the handle may.
            if let Some(handle) = result.resolve {
                handle.resolve();
            }
        }
        self.state.section(State::end_disposal);
        released
    }

    /// Queued tasks stay queued. `false` if that is so already.
    pub(crate) fn pause(&self) -> bool {
        self.state.section(State::pause)
    }

    /// Queued tasks start again. `false` if they may already.
    pub(crate) fn resume(self: &Arc<Self>) -> bool {
        self.section(State::resume)
    }

    /// Open again, at any time. `false` if the pool is open.
    pub(crate) fn reboot(self: &Arc<Self>) -> bool {
        self.section(|state, effects| self.open_again(state, effects))
    }

    /// A reboot's section.
    pub(crate) fn open_again(
        &self,
        state: &mut State<R::Job>,
        effects: &mut Effects<R::Job>,
    ) -> bool {
        let was_released = state.reboot(effects);
        if was_released {
            self.context.stop.reset();
        }
        was_released
    }

    pub(crate) fn tune(self: &Arc<Self>, capacity: Capacity) -> Result<(), TuneError> {
        self.section(|state, effects| state.tune(capacity, effects))
    }

    /// Waits until nothing is in flight.
    pub(crate) fn wait_idle(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.may_wait()?;
        let mut rest = EventWait::of_thread();
        let is_idle = self.state.section(|state| {
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
        // It may have come between the time-out and the lock.
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

    /// Releases, and waits for that end: a reboot that comes before it is not missed.
    pub(crate) fn release_and_wait(
        self: &Arc<Self>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.process().check(WaitError::Forked)?;
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
                if state.generation != generation {
                    return Err(WaitError::Rebooted);
                }
                if state.joining || !state.view().ended() {
                    if state.is_disposed_of_here() {
                        return Err(WaitError::WouldDeadlock);
                    }
                    event.enter(&mut state.on_end);
                    return Ok(End::Wait);
                }
                let threads = state.ending.take_all();
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

    /// Joins what a pool without workers has left. Those that one of these joins as its last act
    /// are gone with it.
    fn join_all(self: &Arc<Self>, threads: Vec<JoinHandle>) {
        if threads.is_empty() {
            return;
        }
        let count = threads.len();
        for thread in threads {
            let _ = thread.join(); // A worker's body does not unwind.
        }
        self.section(|state, effects| {
            state.joining = false;
            state.joined(count, effects);
            effects.set_all(&mut state.on_end);
        });
    }

    /// A worker would wait for itself; a forked child for threads that are not there. That the
    /// caller waits for what it is dropping itself is seen in the wait's section.
    fn may_wait(&self) -> Result<(), WaitError> {
        if self.is_own_worker() {
            Err(WaitError::WouldDeadlock)
        } else {
            self.process().check(WaitError::Forked)
        }
    }

    /// What the last handle's drop does. Does not unwind, so that it is safe while unwinding.
    pub(crate) fn end(self: &Arc<Self>) {
        use crate::config::DropPolicy;
        if !self.process().is_current() {
            // The lock may be held by a thread that is not there. What is queued stays: a scope's
            // tasks borrow what is gone by now.
            std::mem::forget(Arc::clone(self));
            return;
        }
        match self.config.drop_policy {
            DropPolicy::Drain => {
                self.release();
            }
            DropPolicy::Join => {
                // On an own worker it would wait for itself: then it drains.
                let _ = self.release_and_wait(None);
            }
            DropPolicy::Discard => {
                // USER CODE: captures of tasks that the drop of the last handle takes out, and their wakers. The tasks are unfinished until then.
                let discarded = guarded(|| self.release_now(|item| _ = drop_quietly(item)));
                debug_assert!(discarded.is_ok(), "release_now calls nothing unguarded");
            }
        }
    }
}

impl<R: Runner> Core<R> {
    /// Starts so many workers, some of which may have expired when this returns. At a refusal the
    /// pool is released, and what was started ends.
    pub(crate) fn start_ahead(self: &Arc<Self>, workers: usize) -> std::io::Result<()> {
        for _ in 0..workers {
            self.state.section(|state| state.starting = true);
            let started = self.start_reserved(|_, _, started| started);
            if started.is_err() {
                // There is no other handle: it can be neither rebooted nor forked.
                let _ = self.release_and_wait(None);
                return started;
            }
        }
        Ok(())
    }
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

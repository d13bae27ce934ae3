//! Releasing, waiting for the end or for rest, rebooting, tuning.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use sync_shim::thread::JoinHandle;

use crate::after::{After, NoticeWait};
use crate::capacity::{Capacity, UNLIMITED};
use crate::core::{Core, Runner};
use crate::error::{TuneError, WaitError};
use crate::foreign::{drop_quietly, guarded};
use crate::handle::Home;
use crate::run::Outcome;

impl<R: Runner> Core<R> {
    /// Stops acceptance. Whether it was open, and which generation ends.
    pub(crate) fn release(self: &Arc<Self>) -> (bool, u64) {
        let (was_open, generation, mut after) = self.close();
        self.perform(&mut after);
        (was_open, generation)
    }

    /// A release's section; what it owes is left to the caller.
    pub(crate) fn close(&self) -> (bool, u64, After<R::Job>) {
        let mut after = After::new();
        let mut guard = self.state.lock();
        let (was_open, generation) = (guard.open, guard.generation);
        if was_open {
            guard.release(&mut after);
        }
        (was_open, generation, after)
    }

    /// Releases, and takes out what has not started. Calls `keep` with each task's item.
    pub(crate) fn release_now(self: &Arc<Self>, keep: impl FnMut(R::Item)) -> usize {
        let (jobs, mut after) = self.close_now();
        self.perform(&mut after);
        self.dispose(jobs, keep)
    }

    /// A `release_now`'s section; the jobs that it took out are to be disposed of.
    pub(crate) fn close_now(&self) -> (impl Iterator<Item = R::Job> + use<R>, After<R::Job>) {
        let mut after = After::new();
        let mut guard = self.state.lock();
        if guard.open {
            guard.release(&mut after);
        }
        let jobs = guard.take_unstarted(&|job| self.runner.seize(job));
        (jobs, after)
    }

    /// Ends what a [`close_now`](Core::close_now) of this thread took out: how many were still
    /// there to be run.
    pub(crate) fn dispose(
        self: &Arc<Self>,
        jobs: impl Iterator<Item = R::Job>,
        mut keep: impl FnMut(R::Item),
    ) -> usize {
        let mut released = 0;
        for job in jobs {
            let (ran, item) = self.runner.release(job);
            item.into_iter().for_each(&mut keep);
            released += usize::from(ran.outcome == Outcome::Released);
            if ran.outcome != Outcome::Withdrawn {
                let mut after = After::new();
                let mut guard = self.state.lock();
                guard.disposed(ran.outcome, &mut after);
                drop(guard);
                self.perform(&mut after);
            }
            // The figures show the end: now the handle may.
            if let Some(handle) = ran.resolve {
                handle.resolve();
            }
        }
        self.state.lock().end_disposal();
        released
    }

    /// Open again, at any time. `false` if the pool is open.
    pub(crate) fn reboot(self: &Arc<Self>) -> bool {
        let (was_released, mut after) = self.reopen();
        self.perform(&mut after);
        was_released
    }

    /// A reboot's section; what it owes is left to the caller.
    pub(crate) fn reopen(&self) -> (bool, After<R::Job>) {
        let mut after = After::new();
        let mut guard = self.state.lock();
        let was_released = !guard.open;
        if was_released {
            guard.reboot(&mut after);
        }
        (was_released, after)
    }

    pub(crate) fn tune(self: &Arc<Self>, capacity: Capacity) -> Result<(), TuneError> {
        let (tuned, mut after) = self.set_capacity(capacity);
        self.perform(&mut after);
        tuned
    }

    /// A tuning's section; what it owes is left to the caller.
    pub(crate) fn set_capacity(
        &self,
        capacity: Capacity,
    ) -> (Result<(), TuneError>, After<R::Job>) {
        let mut after = After::new();
        let tuned = self.set_bound(capacity, &mut after);
        (tuned, after)
    }

    fn set_bound(&self, capacity: Capacity, after: &mut After<R::Job>) -> Result<(), TuneError> {
        let bound = capacity.bound();
        if bound == 0 {
            return Err(TuneError::ZeroCapacity);
        }
        let mut guard = self.state.lock();
        if bound == UNLIMITED && guard.idle.is_ring() {
            return Err(TuneError::PreallocateUnlimited);
        }
        guard.tune(bound, after).map_err(TuneError::OutOfMemory)
    }

    /// Waits until nothing is in flight.
    pub(crate) fn wait_idle(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.may_wait()?;
        let notice = NoticeWait::new();
        {
            let mut guard = self.state.lock();
            if guard.is_disposed_of_here() {
                return Err(WaitError::WouldDeadlock);
            }
            if guard.unfinished() == 0 {
                return Ok(());
            }
            guard.on_idle.push(notice.notice());
        }
        if notice.wait_until(self.clock(), deadline) {
            return Ok(());
        }
        let mut guard = self.state.lock();
        notice.leave(&mut guard.on_idle);
        // Given between the time-out and the lock: it has come.
        if notice.is_given() {
            Ok(())
        } else {
            Err(WaitError::TimedOut)
        }
    }

    /// Waits until the pool is released and every worker's thread has ended and been joined.
    pub(crate) fn wait_released(
        self: &Arc<Self>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.may_wait()?; // Before the lock, which a fork may have left held.
        let generation = self.state.lock().generation;
        self.wait_for_end(generation, deadline)
    }

    /// Releases, and waits for that end: a reboot that comes before it is not missed.
    pub(crate) fn release_and_wait(
        self: &Arc<Self>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        if self.is_forked() {
            return Err(WaitError::Forked); // The fork may have left the lock held.
        }
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
            let notice = NoticeWait::new();
            let threads = {
                let mut guard = self.state.lock();
                if guard.generation != generation {
                    return Err(WaitError::Rebooted);
                }
                if guard.joining || !guard.view().ended() {
                    if guard.is_disposed_of_here() {
                        return Err(WaitError::WouldDeadlock);
                    }
                    guard.on_end.push(notice.notice());
                    None
                } else {
                    let threads = guard.ending.take_all();
                    if threads.is_empty() {
                        return Ok(());
                    }
                    guard.joining = true;
                    Some(threads)
                }
            };
            if let Some(threads) = threads {
                self.join_all(threads);
                return Ok(());
            }
            if !notice.wait_until(self.clock(), deadline) {
                let mut guard = self.state.lock();
                notice.leave(&mut guard.on_end);
                if !notice.is_given() {
                    return Err(WaitError::TimedOut);
                }
            }
        }
    }

    /// Joins what a pool without workers has left. Those that one of these joins as its last act are
    /// gone with it.
    fn join_all(self: &Arc<Self>, threads: VecDeque<JoinHandle>) {
        let count = threads.len();
        for thread in threads {
            let _ = thread.join(); // A worker's body does not unwind.
        }
        let mut after = After::new();
        let mut guard = self.state.lock();
        guard.joining = false;
        guard.joined(count, &mut after);
        after.tell(&mut guard.on_end);
        drop(guard);
        self.perform(&mut after);
    }

    /// A worker would wait for itself; a forked child for threads that are not there. That the
    /// caller waits for what it is dropping itself is seen in the wait's section.
    fn may_wait(&self) -> Result<(), WaitError> {
        if self.is_own_worker() {
            Err(WaitError::WouldDeadlock)
        } else if self.is_forked() {
            Err(WaitError::Forked)
        } else {
            Ok(())
        }
    }

    /// What the last handle's drop does. Does not unwind, so that it is safe while unwinding.
    pub(crate) fn end(self: &Arc<Self>) {
        use crate::config::DropPolicy;
        if self.is_forked() {
            return; // The lock may be held by a thread that is not there.
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
        let mut guard = self.state.lock();
        for _ in 0..workers {
            guard.starting = true;
            let result;
            (guard, result) = self.start_reserved(guard);
            if result.is_err() {
                drop(guard);
                // Nobody else has a handle: it can be neither rebooted nor forked.
                let _ = self.release_and_wait(None);
                return result;
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

    #[test]
    fn a_wait_whose_time_is_up_takes_its_notice_back_and_ignores_a_token_of_another_wait() {
        testkit::watchdog(testkit::LIMIT, || {
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
        });
    }
}

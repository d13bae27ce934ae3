//! Releasing, waiting for the end or for rest, rebooting, tuning: of all pools as of one.

use std::time::Instant;

use pool_core::internals::{Awaited, Deferred, PoolHandle, are_at_rest};
use pool_core::{Capacity, Runner, TuneError};

use crate::error::MultiWaitError;
use crate::shared::Shared;

/// The generation of each pool that a wait is for.
pub(crate) type Generations = Vec<u64>;

impl<R: Runner> Shared<R> {
    /// One section in each pool, all in a row under `lifecycle_lock`; then the effects of all. So two
    /// such calls that race leave all pools in the state that the later one set.
    fn each<T>(&self, section: impl FnMut(&PoolHandle<R>) -> (T, Deferred<R>)) -> Vec<T> {
        let alike = self.lifecycle_lock.lock();
        let sections: Vec<_> = self.members.iter().map(section).collect();
        drop(alike);
        let (results, effects) = sections.into_iter().unzip();
        // USER CODE: wakers, listeners and captures of tasks taken out, by the releasing thread. Their own waits return `WouldDeadlock`.
        Deferred::run_all(effects);
        results
    }

    /// Step 4 of `waiter.rs`, in every pool. Whether it was open, and the generations that end. In a forked
    /// child there is nothing to release.
    pub(crate) fn release_all(&self) -> (bool, Generations) {
        if !self.first().process().is_current() {
            return (false, self.generations());
        }
        let released = self.each(PoolHandle::release);
        let was_open = released.iter().any(|&(was_open, _)| was_open);
        (
            was_open,
            released.into_iter().map(|(_, ends)| ends).collect(),
        )
    }

    /// Releases, and takes out what has not started. Calls `keep` with each task's item, which
    /// must not panic.
    pub(crate) fn release_all_now(&self, mut keep: impl FnMut(R::Item)) -> usize {
        if !self.first().process().is_current() {
            return 0;
        }
        let jobs = self.each(PoolHandle::release_now);
        let each = self.members.iter().zip(jobs);
        each.map(|(member, jobs)| member.dispose(jobs, &mut keep))
            .sum()
    }

    /// Open again, at any time. `false` if it is open.
    pub(crate) fn reboot_all(&self) -> bool {
        let was_released = self.each(PoolHandle::reboot).contains(&true);
        if was_released {
            // USER CODE: `Strategy::reset`. A panic is the caller's; the pools are open by then.
            self.strategy.reset();
        }
        was_released
    }

    /// No pool starts a queued task any more. `false` if that is so already.
    pub(crate) fn pause_all(&self) -> bool {
        let _alike = self.lifecycle_lock.lock();
        let paused = self.members.iter().map(PoolHandle::pause);
        paused.fold(false, |any, paused| any | paused)
    }

    /// Queued tasks start again. `false` if they may already.
    pub(crate) fn resume_all(&self) -> bool {
        self.each(PoolHandle::resume).contains(&true)
    }

    /// Sets each pool's capacity, up to the first that refuses.
    pub(crate) fn tune_all(&self, capacity: Capacity) -> Result<(), TuneError> {
        let mut effects = Vec::new();
        let tuned = {
            let _alike = self.lifecycle_lock.lock();
            self.members.iter().try_for_each(|member| {
                let (tuned, deferred) = member.tune(capacity);
                effects.push(deferred);
                tuned
            })
        };
        Deferred::run_all(effects);
        tuned
    }

    /// What a wait for the end waits for. In a forked child none is asked for, for a thread that stayed in the
    /// parent may hold the locks, and each wait says so.
    pub(crate) fn generations(&self) -> Generations {
        if !self.first().process().is_current() {
            return vec![0; self.members.len()];
        }
        let _alike = self.lifecycle_lock.lock();
        self.members.iter().map(PoolHandle::generation).collect()
    }

    /// The generations whose end is awaited; `None` if rest is. A release is made here.
    pub(crate) fn generations_of(&self, awaited: Awaited) -> Option<Generations> {
        match awaited {
            Awaited::Rest => None,
            Awaited::Release => Some(self.release_all().1),
            Awaited::End | Awaited::EndOf(_) => Some(self.generations()),
        }
    }

    pub(crate) fn wait_for_end(
        &self,
        generations: &[u64],
        deadline: Option<Instant>,
    ) -> Result<(), MultiWaitError> {
        let each = self.members.iter().zip(generations);
        MultiWaitError::gather(
            each.map(|(member, &generation)| member.wait_for_end(generation, deadline)),
        )
    }

    /// Waits until nothing is in flight in any pool, at one instant.
    ///
    /// To wait for one pool after the other is not enough: meanwhile a task of a pool that is still
    /// waited for may have submitted to one that no longer is.
    pub(crate) fn wait_idle(&self, deadline: Option<Instant>) -> Result<(), MultiWaitError> {
        loop {
            let each = self.members.iter();
            MultiWaitError::gather(each.map(|member| member.wait_idle(deadline)))?;
            if self.is_at_rest() {
                return Ok(());
            }
        }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        are_at_rest(&self.members)
    }

    pub(crate) async fn wait_for_end_async(
        &self,
        generations: Generations,
        deadline: Option<Instant>,
    ) -> Result<(), MultiWaitError> {
        let mut answers = Vec::with_capacity(self.members.len());
        for (member, generation) in self.members.iter().zip(generations) {
            answers.push(member.wait_for_end_async(generation, deadline).await);
        }
        MultiWaitError::gather(answers.into_iter())
    }

    /// As `wait_idle`.
    pub(crate) async fn wait_idle_async(&self) -> Result<(), MultiWaitError> {
        loop {
            let mut answers = Vec::with_capacity(self.members.len());
            for member in &self.members {
                answers.push(member.wait_idle_async().await);
            }
            MultiWaitError::gather(answers.into_iter())?;
            if self.is_at_rest() {
                return Ok(());
            }
        }
    }
}

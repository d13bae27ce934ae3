//! Releases, waits, reboots and tunings of all pools together.

use std::time::Instant;

use pool_core::internals::{Awaited, Deferred, Disposal, PoolHandle, are_at_rest};
use pool_core::{Capacity, TuneError};

use crate::error::MultiWaitError;
use crate::shared::Shared;

/// The awaited generation of each pool.
pub(crate) type Generations = Vec<u64>;

impl Shared {
    /// Runs one section in each pool under `lifecycle_lock`, then the effects of all. If two such calls
    /// race, all pools are left in the state of the later one.
    fn each<T>(&self, section: impl FnMut(&PoolHandle) -> (T, Deferred)) -> Vec<T> {
        let alike = self.lifecycle_lock.lock();
        let sections: Vec<_> = self.members.iter().map(section).collect();
        drop(alike);
        let (results, effects) = sections.into_iter().unzip();
        // USER CODE: wakers, listeners and captures of tasks taken out, by the releasing thread. Their own waits return `WouldDeadlock`.
        Deferred::run_all(effects);
        results
    }

    /// Step 4 of `waiter.rs` in every pool. Returns whether the multi-pool was open, and the generations that
    /// end. Has no effect in a forked child.
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

    /// Releases all pools and removes the tasks that have not started. Calls `end`, which must not panic,
    /// with each task's item.
    pub(crate) fn release_all_now(&self, end: Disposal<'_>) -> usize {
        if !self.first().process().is_current() {
            return 0;
        }
        let jobs = self.each(PoolHandle::release_now);
        let each = self.members.iter().zip(jobs);
        each.map(|(member, jobs)| member.dispose(jobs, end)).sum()
    }

    pub(crate) fn reboot_all(&self) -> bool {
        let was_released = self.each(PoolHandle::reboot).contains(&true);
        if was_released {
            // USER CODE: `Strategy::reset`. A panic is the caller's; the pools are open by then.
            self.strategy.reset();
        }
        was_released
    }

    /// Returns `false` if all pools were paused already.
    pub(crate) fn pause_all(&self) -> bool {
        let _alike = self.lifecycle_lock.lock();
        let paused = self.members.iter().map(PoolHandle::pause);
        paused.fold(false, |any, paused| any | paused)
    }

    /// Returns `false` if no pool was paused.
    pub(crate) fn resume_all(&self) -> bool {
        self.each(PoolHandle::resume).contains(&true)
    }

    /// Sets the capacity of each pool until one refuses it.
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

    /// The current generation of each pool. In a forked child, where threads of the parent may hold the
    /// locks, returns zeros; the waits for them return `Forked`.
    pub(crate) fn generations(&self) -> Generations {
        if !self.first().process().is_current() {
            return vec![0; self.members.len()];
        }
        let _alike = self.lifecycle_lock.lock();
        self.members.iter().map(PoolHandle::generation).collect()
    }

    /// The generations to wait for, or `None` for a wait for rest. Releases the pools if `awaited` says so.
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

    /// Waits for an instant at which no pool has a task in flight.
    ///
    /// Waiting for one pool after the other is not enough: a task of a later pool may submit to an earlier
    /// one, for which the wait is already over.
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

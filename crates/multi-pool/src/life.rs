//! Releasing, waiting for the end or for rest, rebooting, tuning: of all pools as of one.

use std::time::Instant;

use pool_core::family::{Child, Owed};
use pool_core::{Capacity, Runner, TuneError};

use crate::error::MultiWaitError;
use crate::shared::Shared;

/// The generation of each pool that a wait is for.
pub(crate) type Generations = Vec<u64>;

impl<R: Runner> Shared<R> {
    /// Stops acceptance. Whether it was open, and what ends.
    pub(crate) fn release(&self) -> (bool, Generations) {
        let mut was_open = false;
        let (mut generations, mut owed) = (Vec::new(), Vec::new());
        {
            let _alike = self.life.lock();
            for child in &self.children {
                let closed = child.close();
                was_open |= closed.0;
                generations.push(closed.1);
                owed.push(closed.2);
            }
        }
        Owed::pay_all(owed);
        (was_open, generations)
    }

    /// Releases, and takes out what has not started. Calls `keep` with each task's item, which
    /// must not panic.
    pub(crate) fn release_now(&self, mut keep: impl FnMut(R::Item)) -> usize {
        let mut taken = Vec::new();
        {
            let _alike = self.life.lock();
            taken.extend(self.children.iter().map(Child::close_now));
        }
        let (jobs, owed): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        Owed::pay_all(owed);
        let each = self.children.iter().zip(jobs);
        each.map(|(child, jobs)| child.dispose(jobs, &mut keep))
            .sum()
    }

    /// Open again, at any time. `false` if it is open.
    pub(crate) fn reboot(&self) -> bool {
        let mut was_released = false;
        let mut owed = Vec::new();
        {
            let _alike = self.life.lock();
            for child in &self.children {
                let reopened = child.reopen();
                was_released |= reopened.0;
                owed.push(reopened.1);
            }
        }
        Owed::pay_all(owed);
        if was_released {
            self.strategy.reset(); // Foreign code: no lock is held.
        }
        was_released
    }

    /// Sets each pool's capacity, up to the first that refuses.
    pub(crate) fn tune(&self, capacity: Capacity) -> Result<(), TuneError> {
        let mut owed = Vec::new();
        let tuned = {
            let _alike = self.life.lock();
            self.children.iter().try_for_each(|child| {
                let (tuned, after) = child.set_capacity(capacity);
                owed.push(after);
                tuned
            })
        };
        Owed::pay_all(owed);
        tuned
    }

    /// What a wait for the end waits for.
    pub(crate) fn generations(&self) -> Generations {
        let _alike = self.life.lock();
        self.children.iter().map(Child::generation).collect()
    }

    pub(crate) fn wait_for_end(
        &self,
        generations: &[u64],
        deadline: Option<Instant>,
    ) -> Result<(), MultiWaitError> {
        let each = self.children.iter().zip(generations);
        MultiWaitError::gather(
            each.map(|(child, &generation)| child.wait_for_end(generation, deadline)),
        )
    }

    /// Waits until nothing is in flight in any pool, at one instant.
    ///
    /// To wait for one pool after the other is not enough: a task may have gone round them
    /// meanwhile, from one that is still waited for to one that no longer is.
    pub(crate) fn wait_idle(&self, deadline: Option<Instant>) -> Result<(), MultiWaitError> {
        loop {
            let each = self.children.iter();
            MultiWaitError::gather(each.map(|child| child.wait_idle(deadline)))?;
            if self.is_at_rest() {
                return Ok(());
            }
        }
    }

    /// Each pool was at rest at the first look and at the second, and had accepted nothing in
    /// between: so all of them were, at once, between the last first look and the first second.
    fn is_at_rest(&self) -> bool {
        let look = || -> Option<Vec<u64>> { self.children.iter().map(Child::at_rest).collect() };
        look().is_some_and(|first| look() == Some(first))
    }
}

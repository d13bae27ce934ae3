//! Building a multi-pool.

use std::fmt;
use std::sync::Arc;

use pool_core::internals::{Member, build_group, name_of_group};
use pool_core::{Builder, Runner};

use crate::error::MultiBuildError;
use crate::multi::MultiWorkerPool;
use crate::shared::Shared;
use crate::strategy::{RoundRobin, Strategy};

/// Sets a multi-pool up: how many pools, and which strategy. What each pool is like says the pool's
/// own builder.
///
/// | the pool's setting | what it means here |
/// |---|---|
/// | `capacity`, `queue_depth`, `min_workers`, `prestart` | for each pool |
/// | `max_waiting` | for all together: a waiter waits for any of them |
/// | `nonblocking` | `submit` and `spawn` refuse if every pool is full |
/// | `within_worker` | on a worker of any pool, if every pool is full |
/// | `name` | the pools are called after it, with a number |
#[must_use = "a builder does nothing until `build` is called"]
pub struct MultiBuilder<R> {
    each: Builder<R>,
    pools: usize,
    strategy: Box<dyn Strategy>,
}

impl<R: Runner> MultiBuilder<R> {
    pub(crate) fn new(each: Builder<R>) -> Self {
        Self {
            each,
            pools: 0,
            strategy: Box::new(RoundRobin::new()),
        }
    }

    /// How many pools. There is no default.
    pub fn pools(mut self, pools: usize) -> Self {
        self.pools = pools;
        self
    }

    /// Which pool a task is offered to first; [`RoundRobin`] unless it is said.
    #[doc(alias = "LoadBalancingStrategy")]
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.strategy = Box::new(strategy);
        self
    }

    /// Builds the pools.
    ///
    /// # Errors
    /// If there are to be no pools, which is looked at first, and if one cannot be built: then
    /// those built before it are ended again, with their workers.
    #[doc(alias = "NewMultiPool")]
    pub fn build(self) -> Result<MultiWorkerPool<R>, MultiBuildError>
    where
        R: Clone,
    {
        if self.pools == 0 {
            return Err(MultiBuildError::NoPools);
        }
        let name = name_of_group(&self.each).to_owned();
        let pools = build_group(self.each, self.pools)?;
        let members = pools.iter().map(Member::of).collect();
        let shared = Shared::new(name, members, self.strategy);
        Ok(MultiWorkerPool::new(pools.into(), Arc::new(shared)))
    }
}

impl<R> fmt::Debug for MultiBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiBuilder")
            .field("each", &self.each)
            .field("pools", &self.pools)
            .finish_non_exhaustive()
    }
}

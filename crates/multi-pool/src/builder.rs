//! Building a multi-pool.

use std::fmt;
use std::sync::Arc;

use pool_core::internals::{build_group, name_of_group};
use pool_core::{Builder, Runner};

use crate::error::MultiBuildError;
use crate::multi::MultiWorkerPool;
use crate::shared::Shared;
use crate::strategy::{RoundRobin, Strategy};

/// Sets a multi-pool up: how many pools, and which strategy. The settings of each pool are those of
/// the [`Builder`] it is made from.
///
/// | the pool's setting | what it means here |
/// |---|---|
/// | `capacity`, `queue_depth`, `min_workers`, `prestart` | for each pool |
/// | `max_waiting` | for all together: a waiter is enqueued at every pool, and counted once |
/// | `on_full`, `nonblocking` | what `submit` and `spawn` do if every pool is full; the oldest is discarded in the first pool that has one to give |
/// | `start_paused` | each pool is paused |
/// | `within_worker` | on a worker of any pool, if every pool is full |
/// | `name` | each pool is named after it, with its index |
///
/// ```
/// use multi_pool::{LeastTasks, MultiPool};
/// use pool_core::Pool;
///
/// let each = Pool::builder().name("io").capacity(8).queue_depth(64);
/// let pool = MultiPool::builder(each).pools(4).strategy(LeastTasks).build()?;
/// assert_eq!(pool.capacity().limit(), Some(32));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
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

    /// Which pool a task is offered to first. [`RoundRobin`] by default.
    #[doc(alias = "LoadBalancingStrategy")]
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.strategy = Box::new(strategy);
        self
    }

    /// Builds the pools.
    ///
    /// # Errors
    /// If the number of pools is zero, which is checked first, or if one cannot be built: then those
    /// built before it are released, and their workers have ended.
    #[doc(alias = "NewMultiPool")]
    pub fn build(self) -> Result<MultiWorkerPool<R>, MultiBuildError>
    where
        R: Clone,
    {
        if self.pools == 0 {
            return Err(MultiBuildError::NoPools);
        }
        let name = name_of_group(&self.each).to_owned();
        let members = build_group(self.each, self.pools)?.into();
        let shared = Shared::new(name, members, self.strategy);
        Ok(MultiWorkerPool::of(Arc::new(shared)))
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

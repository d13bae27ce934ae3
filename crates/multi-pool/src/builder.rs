//! Building a multi-pool.

use std::fmt;
use std::sync::Arc;

use pool_core::internals::{build_group, name_of_group};
use pool_core::{Builder, Runner};

use crate::error::MultiBuildError;
use crate::multi::MultiWorkerPool;
use crate::shared::Shared;
use crate::strategy::{RoundRobin, Strategy};

/// Builder of a multi-pool: the number of pools and the strategy. The [`Builder`] passed to [`new`](Self::new) has the
/// settings of each pool.
///
/// | setting of the pool | meaning in a multi-pool |
/// |---|---|
/// | `capacity`, `queue_depth`, `min_workers`, `prestart` | per pool |
/// | `max_waiting` | for all pools together: a waiter is in every pool's queue and counted once |
/// | `on_full`, `nonblocking` | applies if all pools are full; `DiscardOldest` discards in the first pool that has a task to discard |
/// | `start_paused` | starts every pool paused |
/// | `within_worker` | applies on the workers of all pools, if all pools are full |
/// | `name` | each pool's name is this one with its index |
///
/// ```
/// use multi_pool::{LeastTasks, MultiBuilder};
/// use pool_core::Pool;
///
/// let each = Pool::builder().name("io").capacity(8).queue_depth(64);
/// let pool = MultiBuilder::new(each).pools(4).strategy(LeastTasks).build()?;
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
    /// Starts the settings of a multi-pool. `each` has the settings of each member.
    pub fn new(each: Builder<R>) -> Self {
        Self {
            each,
            pools: 0,
            strategy: Box::new(RoundRobin::new()),
        }
    }

    /// Sets the number of pools. There is no default.
    pub fn pools(mut self, pools: usize) -> Self {
        self.pools = pools;
        self
    }

    /// Sets the strategy that chooses the pool to offer a task to first. The default is [`RoundRobin`].
    #[doc(alias = "LoadBalancingStrategy")]
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.strategy = Box::new(strategy);
        self
    }

    /// Builds the pools.
    ///
    /// # Errors
    /// If the number of pools is zero, or if a pool cannot be built. Pools built before are then released, and
    /// their workers have ended.
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

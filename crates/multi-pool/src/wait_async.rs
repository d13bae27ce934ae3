//! Waiting for rest or for the end of all pools as a future.
//!
//! Not for: blocking, nor joining threads (`life.rs`). What one pool's future waits for is said in
//! `pool-core`.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use pool_core::Runner;

use crate::error::MultiWaitError;
use crate::life::Generations;
use crate::multi::MultiWorkerPool;
use crate::shared::Shared;

impl<R: Runner> Shared<R> {
    async fn wait_for_end_async(
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
    async fn wait_idle_async(&self) -> Result<(), MultiWaitError> {
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

/// Waiting as a future, under any runtime: nothing here blocks, and dropping a future leaves nothing
/// behind. What [`WorkerPool`](pool_core::WorkerPool)'s futures of the same names wait for, all of
/// the pools are to be. None of them is `Unpin`: pin it, to poll it by hand.
#[expect(
    clippy::missing_errors_doc,
    reason = "those of one pool, to which the docs lead"
)]
impl<R: Runner> MultiWorkerPool<R> {
    /// Resolves once there is an instant, after its first poll, at which nothing is in flight in any
    /// pool.
    pub fn wait_idle_async(
        &self,
    ) -> impl Future<Output = Result<(), MultiWaitError>> + Send + use<R> {
        let shared = Arc::clone(self.shared());
        async move { shared.wait_idle_async().await }
    }

    /// Resolves once all pools have ended. It keeps nothing open.
    pub fn wait_released_async(
        &self,
    ) -> impl Future<Output = Result<(), MultiWaitError>> + Send + use<R> {
        let shared = Arc::clone(self.shared());
        async move {
            let generations = shared.generations();
            shared.wait_for_end_async(generations, None).await
        }
    }

    /// Releases all pools, at the first poll, and resolves once all have ended; or at the deadline,
    /// by the pools' clock.
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    /// # use std::future::Future;
    /// # fn block_on<F: Future>(future: F) -> F::Output { testkit::block_on(future) }
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(1)).pools(2).build()?;
    /// pool.submit(|| ())?;
    /// block_on(pool.release_async(None))?; // Your runtime's, or `.await`.
    /// assert_eq!(pool.running(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release_async(
        &self,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), MultiWaitError>> + Send + use<R> {
        let shared = Arc::clone(self.shared());
        async move {
            let generations = shared.release().1;
            shared.wait_for_end_async(generations, deadline).await
        }
    }
}

//! Async versions of the calls that wait until the pool is idle or has ended.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::runner::Runner;
use crate::engine::wait::Awaited;
use crate::face::pool::WorkerPool;

/// Async waits. They work under any runtime, never block, and can be dropped at any time.
///
/// Unlike the blocking calls, these futures do not join threads: they are ready as soon as the last
/// worker has run its last task and its stop hook. Its thread, and those of workers that ended
/// before it, may still run destructors of thread-locals; [`Stats::ending`](crate::Stats::ending)
/// counts the threads not yet joined. The futures can be awaited on any thread, but a task that
/// blocks on one holds its own worker, and so waits for itself.
impl<R: Runner, A: Admit<R>> WorkerPool<R, A> {
    /// Async version of [`wait_idle`](Self::wait_idle). Resolves once there has been an instant
    /// after its first poll at which no task was in flight.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// pool.submit(|| println!("done"))?;
    /// pool.wait_idle_async().await?;
    /// assert_eq!(pool.in_flight(), 0);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`Forked`](crate::WaitError::Forked) in a forked child.
    pub fn wait_idle_async(
        &self,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A> {
        Arc::clone(self.admit()).wait_async(Awaited::Rest, None)
    }

    /// Resolves once the pool has ended: it is released (by any thread), no task is in flight, and
    /// no worker is left. The future does not keep the pool open.
    ///
    /// # Errors
    /// [`Rebooted`](crate::WaitError::Rebooted) if the pool is rebooted first,
    /// [`Forked`](crate::WaitError::Forked) in a forked child.
    pub fn wait_released_async(
        &self,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A> {
        Arc::clone(self.admit()).wait_async(Awaited::End, None)
    }

    /// Releases the pool at the first poll, and resolves once it has ended, as
    /// [`wait_released_async`](Self::wait_released_async) does, or at the deadline by the pool's
    /// clock.
    ///
    /// For shutdown in an async program. After it, dropping the last handle blocks no thread of the
    /// runtime, even under [`DropPolicy::Join`](crate::DropPolicy::Join), which otherwise blocks
    /// until all accepted tasks have run.
    ///
    /// ```
    /// use pool_core::{DropPolicy, Pool};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let pool = Pool::builder().capacity(2).drop_policy(DropPolicy::Join).build()?;
    /// let answer = pool.spawn_async(|| 6 * 7).await?;
    /// pool.release_async(None).await?; // The runtime's thread runs other futures meanwhile.
    /// assert_eq!((answer.await?, pool.running()), (42, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`wait_released_async`](Self::wait_released_async), and
    /// [`TimedOut`](crate::WaitError::TimedOut), also if the clock has no thread to wake the future
    /// at the deadline. The pool stays released after an error.
    pub fn release_async(
        &self,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A> {
        Arc::clone(self.admit()).wait_async(Awaited::Release, deadline)
    }
}

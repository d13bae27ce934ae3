//! The calls that wait for rest or for the end as futures.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::runner::Runner;
use crate::engine::wait::Awaited;
use crate::face::pool::WorkerPool;

/// Waiting as a future, under any runtime: nothing here blocks, and dropping a future leaves nothing
/// behind.
///
/// Unlike the calls that block, a future does not join threads: it is ready as soon as the last
/// worker is gone, that is, has run its last task and its stop hook. Its thread, and those of workers
/// that went before it, may still drop their thread-locals; [`Stats::ending`](crate::Stats::ending)
/// counts those not yet joined. It may be awaited on any thread, but a task that blocks on it holds
/// its own worker, and waits for itself.
impl<R: Runner, A: Admit<R>> WorkerPool<R, A> {
    /// As [`wait_idle`](Self::wait_idle), as a future: resolves once there is an instant, after its
    /// first poll, at which nothing is in flight.
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
    /// [`Forked`](WaitError::Forked) in a forked child.
    pub fn wait_idle_async(
        &self,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A> {
        Arc::clone(self.admit()).wait_async(Awaited::Rest, None)
    }

    /// Resolves once the pool has ended: it is released (by any thread), nothing is in flight, and
    /// no worker is left. It keeps nothing open.
    ///
    /// # Errors
    /// [`Rebooted`](WaitError::Rebooted) if a reboot came first, [`Forked`](WaitError::Forked) in a
    /// forked child.
    pub fn wait_released_async(
        &self,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A> {
        Arc::clone(self.admit()).wait_async(Awaited::End, None)
    }

    /// Releases, at the first poll, and resolves once the pool has ended, as
    /// [`wait_released_async`](Self::wait_released_async) does; or at the deadline, by the pool's
    /// clock.
    ///
    /// For the end of a pool in an async program: after it, the drop of the last handle blocks no
    /// thread of the runtime, also under [`DropPolicy::Join`](crate::DropPolicy::Join). (That one
    /// without it does, until all accepted tasks have run.)
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
    /// Those, and [`TimedOut`](WaitError::TimedOut): also if the clock has no thread to wake the
    /// future at the deadline. The pool is released all the same.
    pub fn release_async(
        &self,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A> {
        Arc::clone(self.admit()).wait_async(Awaited::Release, deadline)
    }
}

//! `MultiPool`: any closure is a task.

use std::sync::Arc;
use std::time::Duration;

use pool_core::{Closures, GraceEnd};

use crate::error::MultiWaitError;
use crate::multi::{MultiWorkerPool, WeakMultiWorkerPool};

/// Several pools of closures behind one interface: closures are handed over with
/// [`submit`](MultiWorkerPool::submit) and [`spawn`](MultiWorkerPool::spawn).
///
/// ```
/// use multi_pool::MultiPool;
/// use pool_core::Pool;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
///
/// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(4).build()?;
/// let sum = Arc::new(AtomicU64::new(0));
/// for number in 0..1000 {
///     let sum = Arc::clone(&sum);
///     // Blocks while all eight workers are busy.
///     pool.submit(move || _ = sum.fetch_add(number, Ordering::Relaxed))?;
/// }
/// pool.wait_idle()?;
/// assert_eq!(sum.load(Ordering::Relaxed), 499_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type MultiPool = MultiWorkerPool<Closures>;

/// A [`MultiPool`]'s handle that keeps nothing open.
pub type WeakMultiPool = WeakMultiWorkerPool<Closures>;

impl MultiPool {
    /// Releases, and takes out the tasks that have not started: their number. What they captured
    /// is dropped on this thread, and their handles end with `Released`.
    ///
    /// Meanwhile this thread counts as an own worker: a capture whose drop joins another task that was
    /// taken out runs it in place, and one that waits for rest or for the end is refused.
    pub fn release_now(&self) -> usize {
        self.shared().release_now(|()| {})
    }

    /// Releases all pools, lets what they accepted go on for so long, and then takes out what has not
    /// started and asks what runs to stop, in all of them: see
    /// [`Pool::release_with_grace`](pool_core::Pool::release_with_grace).
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::{GraceEnd, Pool};
    /// use std::time::Duration;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(1)).pools(2).build()?;
    /// pool.submit(|| ())?;
    /// assert_eq!(pool.release_with_grace(Duration::from_secs(60))?, GraceEnd::Ended);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As there, by pool. Nothing was taken out then.
    pub fn release_with_grace(&self, grace: Duration) -> Result<GraceEnd<usize>, MultiWaitError> {
        self.shared().release_with_grace(grace, |()| {})
    }

    /// As [`release_with_grace`](Self::release_with_grace), as a future: see
    /// [`Pool::release_with_grace_async`](pool_core::Pool::release_with_grace_async).
    ///
    /// # Errors
    /// As there, by pool.
    pub fn release_with_grace_async(
        &self,
        grace: Duration,
    ) -> impl Future<Output = Result<GraceEnd<usize>, MultiWaitError>> + Send + use<> {
        Arc::clone(self.shared()).release_with_grace_async(grace, |()| {})
    }
}

//! `MultiPool`: any closure is a task.

use pool_core::Closures;

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
}

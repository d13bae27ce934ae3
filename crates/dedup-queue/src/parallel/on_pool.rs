//! The pieces on a pool.

use std::num::NonZeroUsize;

use pool_core::Pool;

use super::{Report, serve_all};

/// As [`parallelize_until`](crate::parallelize_until), but all of the `workers` except the calling thread
/// are the pool's: no thread is started for the call, but those that the pool starts on demand. Blocks
/// until every piece is done or skipped.
///
/// The calling thread does what the pool has no room or no worker for: all of it, if the pool is full or
/// released. So it may be called in a task of the pool. A worker that has begun goes on until no piece is
/// left, and the pool's other tasks wait for it or for the other workers: for long work beside tasks that
/// are not to wait, have fewer workers than the pool.
///
/// The pool counts a task for each worker but the calling thread. A piece's panic is in the report alone.
///
/// ```
/// use dedup_queue::parallelize_until_on;
/// use pool_core::Pool;
/// use std::num::NonZeroUsize;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let pool = Pool::builder().capacity(4).build()?;
/// let sum = AtomicUsize::new(0);
/// let two = NonZeroUsize::MIN.saturating_add(1);
/// let report = parallelize_until_on(&pool, two, 100, || false, |piece| _ = sum.fetch_add(piece, Relaxed));
/// assert_eq!((report.resume().done, sum.into_inner()), (100, 4950));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn parallelize_until_on(
    pool: &Pool,
    workers: NonZeroUsize,
    pieces: usize,
    stop: impl Fn() -> bool + Sync,
    work: impl Fn(usize) + Sync,
) -> Report {
    parallelize_chunks_on(pool, workers, pieces, NonZeroUsize::MIN, stop, work)
}

/// As [`parallelize_until_on`], but `chunk` pieces in a row are handed out at once.
pub fn parallelize_chunks_on(
    pool: &Pool,
    workers: NonZeroUsize,
    pieces: usize,
    chunk: NonZeroUsize,
    stop: impl Fn() -> bool + Sync,
    work: impl Fn(usize) + Sync,
) -> Report {
    serve_all(workers, pieces, chunk, &stop, &work, |helpers, serve| {
        pool.scope(|scope| {
            for _ in 0..helpers {
                scope.submit(serve);
            }
            serve();
        });
    })
}

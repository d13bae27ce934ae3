//! One function over many pieces, on a few threads.
//!
//! Not for: a queue. Pieces are numbers, known from the beginning; nothing waits for anything.
//!
//! On threads of their own, or in a scope of a pool that the program has anyway (`on_pool.rs`). What they
//! do is the same: each takes the next pieces until there are none.
//!
//! # What always holds
//! 1. Each piece is done, skipped, or the one that panicked; none is done twice.
//! 2. Nothing is re-raised unless the caller says so, and no thread outlives the call.

use std::any::Any;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;

use sync_shim::Mutex;
use sync_shim::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use sync_shim::foreign::{discard, guarded};
use sync_shim::thread::{ThreadOptions, scope, spawn_scoped};

#[cfg(feature = "pool")]
mod on_pool;

#[cfg(feature = "pool")]
pub use on_pool::{parallelize_chunks_on, parallelize_until_on};

/// What became of the pieces.
///
/// ```
/// use dedup_queue::parallelize_until;
/// use std::num::NonZeroUsize;
///
/// let report = parallelize_until(NonZeroUsize::MIN, 10, || false, |piece| assert_ne!(piece, 3));
/// assert_eq!((report.done, report.panics[0].piece), (3, 3));
/// assert_eq!(report.skipped, [4..10]);
/// ```
#[derive(Default)]
#[must_use = "pieces may have been skipped, and panics are not re-raised by themselves"]
#[non_exhaustive]
pub struct Report {
    /// How many were done.
    pub done: usize,
    /// Those that were not begun, in order.
    pub skipped: Vec<Range<usize>>,
    /// Those that panicked, in order, with what they panicked with. More than one if several
    /// threads were at it in that moment.
    pub panics: Vec<Panicked>,
}

/// A piece that panicked.
#[non_exhaustive]
pub struct Panicked {
    /// Which.
    pub piece: usize,
    /// What with. If it was the stop condition that panicked, the piece is the one that it was asked
    /// for, and was not begun.
    pub payload: Box<dyn Any + Send>,
}

impl Report {
    /// Whether every piece was done.
    pub fn is_complete(&self) -> bool {
        self.skipped.is_empty() && self.panics.is_empty()
    }

    /// Goes on with the first panic, if there was one.
    ///
    /// # Panics
    /// As that piece did.
    pub fn resume(mut self) -> Self {
        if !self.panics.is_empty() {
            let first = self.panics.remove(0);
            for other in self.panics {
                discard(other.payload);
            }
            resume_unwind(first.payload);
        }
        self
    }
}

impl Report {
    fn skip(&mut self, pieces: Range<usize>) {
        if !pieces.is_empty() {
            self.skipped.push(pieces);
        }
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("done", &self.done)
            .field("skipped", &self.skipped)
            .field("panics", &self.panics)
            .finish()
    }
}

impl fmt::Debug for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panicked")
            .field("piece", &self.piece)
            .finish_non_exhaustive()
    }
}

/// Runs `work` on each of `0..pieces`, until `stop` says so. Blocks until all threads are through.
///
/// The calling thread is one of the `workers`; the others are started here and end here. If the
/// system refuses some of them, those there are do the work. `stop` is asked before each piece.
/// A panic of a piece ends the handing out: pieces that others are at are finished, the rest is
/// skipped. To stop costs nothing for each piece that is left. See [`parallelize_chunks`] for pieces so small that handing them out counts.
///
/// A program with a pool need not start threads for each call: `parallelize_until_on`, by the feature `pool`.
///
/// ```
/// use dedup_queue::parallelize_until;
/// use std::num::NonZeroUsize;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let sum = AtomicUsize::new(0);
/// let two = NonZeroUsize::MIN.saturating_add(1);
/// let report = parallelize_until(two, 100, || false, |piece| _ = sum.fetch_add(piece, Relaxed));
/// assert_eq!((report.resume().done, sum.into_inner()), (100, 4950));
/// ```
#[doc(alias = "ParallelizeUntil")]
pub fn parallelize_until(
    workers: NonZeroUsize,
    pieces: usize,
    stop: impl Fn() -> bool + Sync,
    work: impl Fn(usize) + Sync,
) -> Report {
    parallelize_chunks(workers, pieces, NonZeroUsize::MIN, stop, work)
}

/// As [`parallelize_until`], but `chunk` pieces in a row are handed out at once.
///
/// ```
/// use dedup_queue::parallelize_chunks;
/// use std::num::NonZeroUsize;
///
/// let (two, hundred) = (NonZeroUsize::new(2).unwrap(), NonZeroUsize::new(100).unwrap());
/// let report = parallelize_chunks(two, 1000, hundred, || false, |_piece| {});
/// assert!(report.is_complete());
/// ```
#[doc(alias = "WithChunkSize")]
pub fn parallelize_chunks(
    workers: NonZeroUsize,
    pieces: usize,
    chunk: NonZeroUsize,
    stop: impl Fn() -> bool + Sync,
    work: impl Fn(usize) + Sync,
) -> Report {
    run(
        workers,
        pieces,
        chunk,
        &stop,
        &work,
        ThreadOptions::default(),
    )
}

fn run(
    workers: NonZeroUsize,
    pieces: usize,
    chunk: NonZeroUsize,
    stop: &(impl Fn() -> bool + Sync),
    work: &(impl Fn(usize) + Sync),
    options: ThreadOptions<'_>,
) -> Report {
    serve_all(workers, pieces, chunk, stop, work, |helpers, serve| {
        scope(|scope| {
            for _ in 0..helpers {
                if spawn_scoped(scope, options, serve).is_err() {
                    break; // Those there are do the work.
                }
            }
            serve();
        });
    })
}

/// Serves the pieces. `with` has a function called by so many helpers, or fewer, and by this thread; it
/// returns when all calls have.
fn serve_all(
    workers: NonZeroUsize,
    pieces: usize,
    chunk: NonZeroUsize,
    stop: &(impl Fn() -> bool + Sync),
    work: &(impl Fn(usize) + Sync),
    with: impl FnOnce(usize, &(dyn Fn() + Sync)),
) -> Report {
    let pieces = Pieces::new(pieces, chunk.get());
    // Each thread's own report.
    let reports = Mutex::new(Vec::new());
    let helpers = workers.get().min(pieces.chunks()).saturating_sub(1);
    with(helpers, &|| {
        let report = pieces.serve(stop, work);
        reports.lock().push(report);
    });
    gather(reports.into_inner())
}

/// The pieces, and which of them have been handed out.
struct Pieces {
    count: usize,
    chunk: usize,
    /// The number of the next chunk.
    next: AtomicUsize,
    /// Nothing more is to be begun.
    over: AtomicBool,
}

impl Pieces {
    fn new(count: usize, chunk: usize) -> Self {
        Self {
            count,
            chunk,
            next: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    fn chunks(&self) -> usize {
        self.count.div_ceil(self.chunk)
    }

    /// The next chunk, if there is one.
    fn hand_out(&self) -> Option<Range<usize>> {
        // Relaxed: the thread that gets a number has it alone, and nothing else is read because of it. The
        // count stops at the end, so that it cannot wrap.
        let more = |next| (next < self.chunks()).then(|| next + 1);
        let number = self.next.fetch_update(Relaxed, Relaxed, more).ok()?;
        let first = number * self.chunk;
        Some(first..self.count.min(first.saturating_add(self.chunk)))
    }

    /// Nothing more is begun. What was not handed out yet comes back, once.
    fn stop(&self) -> Range<usize> {
        // Relaxed: one piece more or less makes no difference.
        self.over.store(true, Relaxed);
        // Relaxed, as in `hand_out`: a number is handed out, or it is beyond what is left here.
        let next = self.next.swap(self.chunks(), Relaxed);
        next.saturating_mul(self.chunk).min(self.count)..self.count
    }

    /// One thread's share of the work.
    fn serve(&self, stop: &impl Fn() -> bool, work: &impl Fn(usize)) -> Report {
        let mut report = Report::default();
        while let Some(mut chunk) = self.hand_out() {
            while let Some(piece) = chunk.next() {
                // Relaxed: one piece more or less makes no difference.
                // USER CODE: the condition to stop. A panic is reported with the piece, and ends the call.
                let goes_on = guarded(|| !self.over.load(Relaxed) && !stop());
                let done = goes_on.and_then(|goes_on| {
                    if goes_on {
                        // USER CODE: the work. A panic is reported with its piece.
                        guarded(|| work(piece))?;
                    }
                    Ok(goes_on)
                });
                match done {
                    Ok(true) => report.done += 1,
                    Ok(false) => {
                        report.skip(piece..chunk.end);
                        report.skip(self.stop());
                        return report;
                    }
                    Err(payload) => {
                        report.panics.push(Panicked { piece, payload });
                        report.skip(chunk);
                        report.skip(self.stop());
                        return report;
                    }
                }
            }
        }
        report
    }
}

/// The reports of all threads as one.
fn gather(reports: Vec<Report>) -> Report {
    let mut all = Report::default();
    for report in reports {
        all.done += report.done;
        all.skipped.extend(report.skipped);
        all.panics.extend(report.panics);
    }
    all.panics.sort_by_key(|panicked| panicked.piece);
    all.skipped.sort_by_key(|range| range.start);
    // Neighbours become one.
    all.skipped.dedup_by(|next, before| {
        let adjoin = before.end == next.start;
        if adjoin {
            before.end = next.end;
        }
        adjoin
    });
    all
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// If no thread can be had, the caller does it all.
    #[test]
    fn refused_threads_leave_their_pieces_to_the_others() {
        let refuse = || Err(io::Error::other("no more threads"));
        let options = ThreadOptions {
            gate: Some(&refuse),
            ..ThreadOptions::default()
        };
        let four = NonZeroUsize::MIN.saturating_add(3);
        let report = run(four, 10, NonZeroUsize::MIN, &|| false, &|_| {}, options);
        assert!(report.is_complete());
        assert_eq!(report.done, 10);
    }
}

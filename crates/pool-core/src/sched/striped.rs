//! A counter that many threads increment and that is rarely read.
//!
//! On one cache line the threads would take it from each other with each addition. So each thread uses one of a
//! few lines (a striped counter, like Java's `LongAdder`). Threads that share a line lose speed, not counts.
//!
//! The sum is not a snapshot, so no decision may depend on it.

use crossbeam_utils::CachePadded;
use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};
use sync_shim::thread::thread_number;

/// Number of cache lines. One in a model, since the sum cannot tell the difference.
const LINES: usize = if cfg!(anthill_loom) { 1 } else { 8 };

pub(crate) struct StripedCounter([CachePadded<AtomicU64>; LINES]);

impl StripedCounter {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))))
    }

    #[inline]
    #[cfg_attr(
        anthill_loom,
        expect(clippy::modulo_one, reason = "one line in a model")
    )]
    pub(crate) fn add_one(&self) {
        // Relaxed: no other memory is read because of the count.
        self.0[thread_number() % LINES].fetch_add(1, Relaxed);
    }

    pub(crate) fn sum(&self) -> u64 {
        // Line by line, so the sum belongs to no instant. It never misses an addition that the caller knows of.
        self.0.iter().map(|line| line.load(Relaxed)).sum()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    #[testkit::test]
    fn threads_on_all_lines_lose_no_count() {
        let counter = StripedCounter::new();
        std::thread::scope(|scope| {
            for _ in 0..4 * LINES {
                scope.spawn(|| (0..1000).for_each(|_| counter.add_one()));
            }
        });
        assert_eq!(counter.sum(), 4 * LINES as u64 * 1000);
        let used = counter.0.iter().filter(|line| line.load(Relaxed) > 0);
        assert!(used.count() > 1);
    }
}

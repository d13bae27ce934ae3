//! A number that many threads add to at the same time, and that is seldom read.
//!
//! On one cache line they would take it from each other for each addition. So each thread has one
//! of a few lines (a striped counter, as Java's `LongAdder`); those that share one lose speed, not
//! counts.
//!
//! Not for: a number that decides anything. The sum is of no single instant.

use crossbeam_utils::CachePadded;
use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};
use sync_shim::thread::thread_number;

/// In a model all add to one, which is what the sum shows anyway.
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
        // Relaxed: the number stands for nothing but itself.
        self.0[thread_number() % LINES].fetch_add(1, Relaxed);
    }

    pub(crate) fn sum(&self) -> u64 {
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

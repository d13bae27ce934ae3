//! Pseudo-random due times and orders that are equal in each run. Shared with the benchmark of the
//! heap.

use testkit::Rng;

pub const SEED: u64 = 7;

/// Returns unordered due times within `window` of one another.
pub fn scattered(entries: usize, window: u64) -> Vec<u64> {
    let mut rng = Rng::new(SEED);
    (0..entries).map(|_| 1 + rng.next_u64() % window).collect()
}

pub fn shuffled<T>(mut all: Vec<T>) -> Vec<T> {
    let mut rng = Rng::new(SEED + 1);
    for last in (1..all.len()).rev() {
        all.swap(last, rng.below(last + 1));
    }
    all
}

//! Small reproducible random numbers (`SplitMix64`).

use std::hash::{BuildHasher, RandomState};

/// The environment variable that gives a seed back to a test.
const SEED: &str = "ANTHILL_SEED";

/// A generator with one word of state. Not for anything that must be unpredictable.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of this seed: the same numbers each time.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Takes the seed from `ANTHILL_SEED`, or a fresh one, and prints it, so that the output of a
    /// failed test says how to have it again.
    ///
    /// # Panics
    /// If the variable holds something else than a number.
    pub fn from_env() -> Self {
        let seed = match std::env::var(SEED) {
            Ok(text) => text.parse().expect("ANTHILL_SEED is a decimal number"),
            Err(_) => RandomState::new().hash_one(0), // Its keys are the process's randomness.
        };
        println!("{SEED}={seed}");
        Self::new(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `0..limit`, as good as evenly (limits far below 2^64 are meant).
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        assert!(limit > 0, "there is no number below 0");
        let limit = u64::try_from(limit).expect("a usize fits into 64 bits");
        usize::try_from(self.next_u64() % limit).expect("below a usize")
    }

    /// `true` once in `one_in` times.
    ///
    /// # Panics
    /// If `one_in` is 0.
    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// A generator for another thread, with numbers of its own.
    pub fn split(&mut self) -> Self {
        Self(self.next_u64())
    }
}

//! Small reproducible random numbers (`SplitMix64`).

use std::hash::{BuildHasher, RandomState};

/// The environment variable that sets the seed of a test.
const SEED: &str = "ANTHILL_SEED";

/// A generator with one word of state. Not for anything that must be unpredictable.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates the generator of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Takes the seed from `ANTHILL_SEED`, or a random one, and prints it, so that the output of a
    /// failed test tells how to repeat it.
    ///
    /// # Panics
    /// If the variable is not a number.
    pub fn from_env() -> Self {
        let seed = match std::env::var(SEED) {
            Ok(text) => text.parse().expect("ANTHILL_SEED is a decimal number"),
            Err(_) => RandomState::new().hash_one(0), // The random keys of the process.
        };
        println!("{SEED}={seed}");
        Self::new(seed)
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a nearly uniform number of `0..limit`, for limits far below 2^64.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        assert!(limit > 0, "there is no number below 0");
        let limit = u64::try_from(limit).expect("a usize fits into 64 bits");
        usize::try_from(self.next_u64() % limit).expect("below a usize")
    }

    /// Returns `true` with a probability of 1 to `one_in`.
    ///
    /// # Panics
    /// If `one_in` is 0.
    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// Creates an independent generator for another thread.
    pub fn split(&mut self) -> Self {
        Self(self.next_u64())
    }
}

//! Percentiles of measured times.

use std::time::Duration;

/// Times in ascending order.
pub struct Percentiles(Vec<u64>);

impl Percentiles {
    /// Sorts times in nanoseconds.
    pub fn new(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        Self(nanos)
    }

    /// The smallest time that is not exceeded by a share of `share` of all times.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "counts are far below 2^52, where all whole numbers are floats too"
    )]
    pub fn at(&self, share: f64) -> Duration {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        let value = self.0.get(rank.saturating_sub(1)).or(self.0.last());
        Duration::from_nanos(value.copied().unwrap_or(0))
    }

    pub fn micros(&self, share: f64) -> f64 {
        self.at(share).as_secs_f64() * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let of_a_hundred = Percentiles::new((1..=100).rev().collect());
        for (share, nanos) in [(0.0, 1), (0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100)] {
            assert_eq!(of_a_hundred.at(share), Duration::from_nanos(nanos));
        }
    }

    #[test]
    fn one_value_is_every_percentile_and_none_is_zero() {
        assert_eq!(Percentiles::new(vec![7]).at(0.01), Duration::from_nanos(7));
        assert_eq!(Percentiles::new(vec![7]).at(1.0), Duration::from_nanos(7));
        assert_eq!(Percentiles::new(vec![]).at(0.5), Duration::ZERO);
    }
}

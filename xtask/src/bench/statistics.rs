//! Medians, and ratios that know how far they may be trusted.
//!
//! Not for: a single run. One figure says nothing of its noise, so a ratio of fewer
//! than [`FEWEST_ROUNDS`] rounds has an interval without bounds.

use std::iter;

use serde::Deserialize;

/// Fewer rounds than this say nothing about the noise.
const FEWEST_ROUNDS: usize = 3;
/// Fewer rounds than this are too few to draw from: by chance alone, three pairs of equal pools
/// agree on a winner in every fourth case.
const FEWEST_DRAWN: usize = 5;
/// How often the rounds are drawn anew for an interval.
const RESAMPLES: usize = 2_000;
/// Left out of the interval on each side, so that 95 % of the resamples lie within.
const TAIL: usize = RESAMPLES * 25 / 1_000;

/// Which direction of a metric is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// Times, bytes, counts of what costs.
    #[default]
    Lower,
    /// Rates and shares.
    Higher,
}

/// By how much ours is better than theirs: above 1 ours is ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    /// Of the medians. Infinite if ours is zero and theirs is not.
    pub(crate) middle: f64,
    /// Where the interval of 95 % begins.
    pub(crate) low: f64,
    /// Where it ends.
    pub(crate) high: f64,
}

/// What a ratio says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Ours is better.
    Ahead,
    /// Nothing: the interval contains 1.
    WithinNoise,
    /// Theirs is better.
    Behind,
}

impl Ratio {
    /// Of something with itself.
    pub(crate) const ONE: Self = Self {
        middle: 1.0,
        low: 1.0,
        high: 1.0,
    };

    /// The ratio of the medians of `(theirs, ours)`, one pair for each round. The two of a pair
    /// were measured within minutes of each other, so what disturbed one has likely disturbed the
    /// other: the interval comes from drawing pairs, not single figures. `None` without rounds.
    pub(crate) fn of_pairs(pairs: &[(f64, f64)], better: Better) -> Option<Self> {
        let middle = of_medians(pairs, better)?;
        if pairs.len() < FEWEST_ROUNDS {
            return Some(Self {
                middle,
                low: 0.0,
                high: f64::INFINITY,
            });
        }
        if pairs.len() < FEWEST_DRAWN {
            // Whatever pair of their figure and ours: only pools whose ranges do not meet differ.
            let all = pairs.iter().flat_map(|theirs| {
                pairs
                    .iter()
                    .filter_map(|ours| of_medians(&[(theirs.0, ours.1)], better))
            });
            let mut all: Vec<f64> = all.collect();
            all.sort_by(f64::total_cmp);
            return Some(Self {
                middle,
                low: all[0],
                high: all[all.len() - 1],
            });
        }
        // The same seed each time: the same figures yield the same interval.
        let mut generator = Generator(0x5EED);
        let mut drawn = pairs.to_vec();
        let draw = || {
            drawn.fill_with(|| pairs[generator.below(pairs.len())]);
            of_medians(&drawn, better)
        };
        let mut ratios: Vec<f64> = iter::repeat_with(draw).take(RESAMPLES).flatten().collect();
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (ratios.get(TAIL), ratios.iter().rev().nth(TAIL));
        Some(Self {
            middle,
            low: low.copied().unwrap_or(0.0),
            high: high.copied().unwrap_or(f64::INFINITY),
        })
    }

    /// Whether the interval lets us call it a difference.
    pub(crate) fn verdict(self) -> Verdict {
        if self.low > 1.0 {
            Verdict::Ahead
        } else if self.high < 1.0 {
            Verdict::Behind
        } else {
            Verdict::WithinNoise
        }
    }
}

fn of_medians(pairs: &[(f64, f64)], better: Better) -> Option<f64> {
    let theirs = median(pairs.iter().map(|pair| pair.0))?;
    let ours = median(pairs.iter().map(|pair| pair.1))?;
    Some(match better {
        Better::Lower => quotient(theirs, ours),
        Better::Higher => quotient(ours, theirs),
    })
}

/// Nothing beside nothing is equal: an idle pool that takes no time is not better than another.
fn quotient(above: f64, below: f64) -> f64 {
    if above == 0.0 && below == 0.0 {
        1.0
    } else {
        above / below
    }
}

/// The middle one, or the middle between the middle two. `None` without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let above = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(above);
    }
    Some(f64::midpoint(values[middle - 1], above))
}

/// The mean that fits ratios: 2 and 1/2 yield 1. Values that have no logarithm are passed over.
pub(crate) fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sum = 0.0;
    let mut count = 0_u32;
    for value in values {
        if value > 0.0 && value.is_finite() {
            sum += value.ln();
            count += 1;
        }
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// `SplitMix64`: the same figures yield the same interval on every machine.
#[derive(Debug)]
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Below `end`, evenly but for one part in 2^32 or so.
    fn below(&mut self, end: usize) -> usize {
        let word = u128::from(self.next()) * end as u128;
        usize::try_from(word >> 64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rounds` pairs whose true ratio is `ratio`, each side disturbed by up to `noise`.
    fn pairs(rounds: usize, ratio: f64, noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut generator = Generator(seed);
        let mut disturbed = |value: f64| {
            let part = generator.below(2_001);
            let part = f64::from(u32::try_from(part).expect("small")) / 1_000.0 - 1.0;
            value * (1.0 + noise * part)
        };
        (0..rounds)
            .map(|_| (disturbed(100.0 * ratio), disturbed(100.0)))
            .collect()
    }

    fn width(ratio: Ratio) -> f64 {
        ratio.high - ratio.low
    }

    #[test]
    fn the_median_is_the_middle_one_or_between_the_middle_two() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn the_geometric_mean_of_a_win_and_the_same_loss_is_one() {
        let mean = geometric_mean([4.0, 0.25]).expect("two values");
        assert!((mean - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean([f64::INFINITY, 0.0]), None);
    }

    #[test]
    fn figures_without_noise_yield_the_ratio_and_no_width() {
        let ratio = Ratio::of_pairs(&[(30.0, 10.0); 7], Better::Lower).expect("rounds");
        assert_eq!((ratio.middle, ratio.low, ratio.high), (3.0, 3.0, 3.0));
        assert_eq!(ratio.verdict(), Verdict::Ahead);
        let ratio = Ratio::of_pairs(&[(30.0, 10.0); 7], Better::Higher).expect("rounds");
        assert_eq!(ratio.verdict(), Verdict::Behind);
    }

    #[test]
    fn more_noise_yields_a_wider_interval() {
        let widths = [0.01, 0.05, 0.2, 0.6].map(|noise| {
            width(Ratio::of_pairs(&pairs(7, 2.0, noise, 1), Better::Lower).expect("rounds"))
        });
        assert!(widths.is_sorted(), "{widths:?}");
    }

    #[test]
    fn nearly_all_intervals_contain_the_true_ratio() {
        let contain = (0..100)
            .filter(|seed| {
                let ratio = Ratio::of_pairs(&pairs(7, 2.0, 0.2, *seed), Better::Lower);
                ratio.is_some_and(|ratio| (ratio.low..=ratio.high).contains(&2.0))
            })
            .count();
        assert!(contain >= 85, "{contain} of 100");
    }

    #[test]
    fn equal_pools_with_noise_are_seldom_told_apart() {
        let told_apart = (0..100)
            .filter(|seed| {
                let ratio = Ratio::of_pairs(&pairs(7, 1.0, 0.2, *seed), Better::Lower);
                ratio.is_some_and(|ratio| ratio.verdict() != Verdict::WithinNoise)
            })
            .count();
        assert!(told_apart <= 15, "{told_apart} of 100");
    }

    #[test]
    fn noise_that_disturbs_both_of_a_pair_does_not_widen_the_interval() {
        let common = [1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0];
        let pairs = common.map(|factor| (20.0 * factor, 10.0 * factor));
        let ratio = Ratio::of_pairs(&pairs, Better::Lower).expect("rounds");
        assert!(width(ratio) < 1e-12, "{ratio:?}");
    }

    #[test]
    fn three_rounds_tell_pools_apart_whose_ranges_do_not_meet() {
        let verdict = |pairs: &[(f64, f64)]| {
            let ratio = Ratio::of_pairs(pairs, Better::Lower);
            ratio.expect("rounds").verdict()
        };
        let apart = [(12.0, 9.0), (15.0, 10.0), (13.0, 11.0)];
        assert_eq!(verdict(&apart), Verdict::Ahead);
        // Each of the three pairs has the same winner, and yet.
        let meeting = [(10.0, 9.0), (15.0, 10.0), (13.0, 11.0)];
        assert_eq!(verdict(&meeting), Verdict::WithinNoise);
    }

    #[test]
    fn few_rounds_tell_nothing() {
        let ratio = Ratio::of_pairs(&[(900.0, 1.0); 2], Better::Lower).expect("rounds");
        assert_eq!(ratio.verdict(), Verdict::WithinNoise);
        assert_eq!(Ratio::of_pairs(&[], Better::Lower), None);
    }

    #[test]
    fn zero_beside_zero_is_equal_and_zero_beside_something_is_ahead() {
        let equal = Ratio::of_pairs(&[(0.0, 0.0); 7], Better::Lower).expect("rounds");
        assert_eq!(equal, Ratio::ONE);
        assert_eq!(equal.verdict(), Verdict::WithinNoise);
        let ahead = Ratio::of_pairs(&[(5.0, 0.0); 7], Better::Lower).expect("rounds");
        assert_eq!(ahead.verdict(), Verdict::Ahead);
    }
}

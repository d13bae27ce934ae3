//! Medians, and ratios with a confidence interval.
//!
//! The two figures of a round were measured within minutes of each other, so a disturbance of one
//! has probably affected the other. The interval is that of the sign test on the rounds' ratios: at
//! least 95 % for any distribution of the noise.

use measure::report::Better;

/// Fewer rounds show nothing about the noise.
const FEWEST_ROUNDS: usize = 3;

/// The factor by which ours is better than theirs: above 1, ours is ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The ratio of the medians. Infinite if ours is zero and theirs is not.
    pub middle: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Ahead,
    /// The interval contains 1.
    WithinNoise,
    Behind,
}

impl Ratio {
    /// Computes the ratio from `(theirs, ours)`, one pair per round. `None` without rounds.
    pub fn of_pairs(pairs: &[(f64, f64)], better: Better) -> Option<Self> {
        let ratio = |theirs: f64, ours: f64| match better {
            Better::Lower => quotient(theirs, ours),
            Better::Higher => quotient(ours, theirs),
        };
        let theirs = median(pairs.iter().map(|pair| pair.0))?;
        let ours = median(pairs.iter().map(|pair| pair.1))?;
        let middle = ratio(theirs, ours);
        let (mut low, mut high) = (0.0, f64::INFINITY);
        if let Some(rank) = rank(pairs.len()) {
            let ratios = sorted(pairs.iter().map(|pair| ratio(pair.0, pair.1)));
            (low, high) = (ratios[rank], ratios[ratios.len() - 1 - rank]);
        } else if pairs.len() >= FEWEST_ROUNDS {
            // Too few for the test: pools differ only if their ranges do not overlap.
            let ours = sorted(pairs.iter().map(|pair| pair.1));
            let all = ours.iter();
            let all = sorted(all.flat_map(|ours| pairs.iter().map(|pair| ratio(pair.0, *ours))));
            (low, high) = (all[0], all[all.len() - 1]);
        }
        Some(Self { middle, low, high })
    }

    pub fn verdict(self) -> Verdict {
        if self.low > 1.0 {
            Verdict::Ahead
        } else if self.high < 1.0 {
            Verdict::Behind
        } else {
            Verdict::WithinNoise
        }
    }
}

/// The number of ratios outside the interval on each side: the largest for which a fair coin per
/// round excludes the true ratio in at most 5 % of all comparisons. `None` if even the whole range
/// is too narrow.
fn rank(rounds: usize) -> Option<usize> {
    let mut ways = 1.0;
    let mut outside = 0.0;
    let all = 2_f64.powi(i32::try_from(rounds).ok()?);
    for rank in 0..rounds {
        outside += 2.0 * ways / all;
        if outside > 0.05 {
            return rank.checked_sub(1);
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of rounds are small")]
        let next = (rounds - rank) as f64 / (rank + 1) as f64;
        ways *= next;
    }
    None
}

/// Two zeros are equal: an idle pool that takes no time is not better than another one.
fn quotient(above: f64, below: f64) -> f64 {
    if above == 0.0 && below == 0.0 {
        1.0
    } else {
        above / below
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle value, or the mean of the middle two. `None` without values.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values = sorted(values);
    let middle = values.len() / 2;
    let above = *values.get(middle)?;
    Some(if values.len() % 2 == 1 {
        above
    } else {
        f64::midpoint(values[middle - 1], above)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(pairs: &[(f64, f64)], better: Better) -> Ratio {
        Ratio::of_pairs(pairs, better).expect("rounds")
    }

    fn verdict(pairs: &[(f64, f64)]) -> Verdict {
        ratio(pairs, Better::Lower).verdict()
    }

    #[test]
    fn the_median_is_the_middle_value_or_the_mean_of_the_middle_two() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
    }

    #[test]
    fn the_interval_excludes_as_many_ratios_as_the_sign_test_allows() {
        let known = [
            (5, None),
            (6, Some(0)),
            (8, Some(0)),
            (9, Some(1)),
            (20, Some(5)),
        ];
        for (rounds, expected) in known {
            assert_eq!(rank(rounds), expected, "{rounds} rounds");
        }
    }

    #[test]
    fn figures_without_noise_yield_the_ratio_and_no_width() {
        let lower = ratio(&[(30.0, 10.0); 7], Better::Lower);
        assert_eq!((lower.middle, lower.low, lower.high), (3.0, 3.0, 3.0));
        assert_eq!(lower.verdict(), Verdict::Ahead);
        let higher = ratio(&[(30.0, 10.0); 7], Better::Higher);
        assert_eq!(higher.verdict(), Verdict::Behind);
    }

    #[test]
    fn noise_that_disturbs_both_of_a_pair_does_not_widen_the_interval() {
        let common = [1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0];
        let of = ratio(&common.map(|it| (20.0 * it, 10.0 * it)), Better::Lower);
        assert!(of.high - of.low < 1e-12, "{of:?}");
    }

    #[test]
    fn one_round_against_six_leaves_the_difference_within_the_noise() {
        let mut pairs = [(20.0, 10.0); 7];
        assert_eq!(verdict(&pairs), Verdict::Ahead);
        pairs[3] = (9.0, 10.0);
        assert_eq!(verdict(&pairs), Verdict::WithinNoise);
    }

    #[test]
    fn three_rounds_distinguish_pools_with_disjoint_ranges_and_two_rounds_do_not() {
        let apart = [(12.0, 9.0), (15.0, 10.0), (13.0, 11.0)];
        assert_eq!(verdict(&apart), Verdict::Ahead);
        // All three pairs have the same winner, but the ranges overlap.
        let meeting = [(10.0, 9.0), (15.0, 10.0), (13.0, 11.0)];
        assert_eq!(verdict(&meeting), Verdict::WithinNoise);
        assert_eq!(verdict(&[(900.0, 1.0); 2]), Verdict::WithinNoise);
        assert_eq!(Ratio::of_pairs(&[], Better::Lower), None);
    }

    #[test]
    fn two_zeros_are_equal_and_zero_is_ahead_of_a_positive_figure() {
        assert_eq!(verdict(&[(0.0, 0.0); 7]), Verdict::WithinNoise);
        assert_eq!(verdict(&[(5.0, 0.0); 7]), Verdict::Ahead);
    }
}

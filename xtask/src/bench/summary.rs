//! One line for each group: is anthill ahead of the best peer?

use super::report::{Group, Report};
use super::statistics::{Verdict, geometric_mean};
use super::words;

/// How the cases of a group stand beside the best peer of each.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Summary {
    /// The geometric mean of the ratios to the best peer of each case. Cases without such a ratio
    /// (no peer ran, or one of the two is zero) are left out; infinite if ours is always zero.
    pub(crate) mean: Option<f64>,
    pub(crate) ahead: usize,
    pub(crate) within_noise: usize,
    pub(crate) behind: usize,
}

impl Summary {
    /// Of one group.
    pub(crate) fn of_group(group: &Group) -> Self {
        Self::of([group])
    }

    /// Of all groups, oversubscribed or not.
    pub(crate) fn of_report(report: &Report) -> Self {
        Self::of(&report.groups)
    }

    fn of<'a>(groups: impl IntoIterator<Item = &'a Group>) -> Self {
        let mut summary = Self::default();
        let mut ratios = Vec::new();
        for row in groups.into_iter().flat_map(|group| &group.rows) {
            let Some((_, ratio)) = row.best_peer() else {
                continue;
            };
            ratios.push(ratio.middle);
            match ratio.verdict() {
                Verdict::Ahead => summary.ahead += 1,
                Verdict::WithinNoise => summary.within_noise += 1,
                Verdict::Behind => summary.behind += 1,
            }
        }
        let all_infinite = !ratios.is_empty() && ratios.iter().all(|ratio| ratio.is_infinite());
        summary.mean = if all_infinite {
            Some(f64::INFINITY)
        } else {
            geometric_mean(ratios)
        };
        summary
    }

    /// The mean in words; no win and no loss if no case is one.
    pub(crate) fn factor(&self) -> String {
        match self.mean {
            None => String::new(),
            Some(_) if self.ahead == 0 && self.behind == 0 => "≈".to_owned(),
            Some(mean) => words::factor(mean),
        }
    }

    /// How many cases it counts.
    pub(crate) fn cases(&self) -> usize {
        self.ahead + self.within_noise + self.behind
    }

    /// In words.
    pub(crate) fn sentence(&self) -> String {
        let Self {
            ahead,
            within_noise,
            behind,
            ..
        } = self;
        format!(
            "ahead of the best peer in {ahead} of {} cases, within noise in {within_noise}, \
             behind in {behind}",
            self.cases()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn a_group_without_a_win_or_a_loss_has_no_factor() {
        let factor = |ahead, within_noise| {
            let summary = Summary {
                mean: Some(1.3),
                ahead,
                within_noise,
                behind: 0,
            };
            summary.factor()
        };
        assert_eq!(factor(0, 2), "≈");
        assert_eq!(factor(1, 1), "1.3x");
    }

    #[test]
    fn each_case_counts_once_beside_its_best_peer() {
        let report = example::report();
        let summary = Summary::of_group(&report.groups[0]);
        assert_eq!(
            (summary.ahead, summary.within_noise, summary.behind),
            (1, 1, 1)
        );
        let mean = summary.mean.expect("three ratios");
        assert!((1.0..1.3).contains(&mean), "{mean}");
        assert_eq!(Summary::of_report(&report).cases(), 14);
    }
}

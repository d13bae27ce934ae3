//! What was measured, in the order and with the words of a reader. All formats show this.

use super::origin::Origin;
use super::plan::{Chart, Entry, Plan};
use super::program::Sample;
use super::rounds::Runs;
use super::statistics::{Ratio, median};

/// A pool whose name begins so is a yardstick: no peer, but what the machine can do.
const YARDSTICK: &str = "bare ";

/// A pool whose name begins so is ours, though it is not the one that the others are compared with.
const OURS: &str = "ours";

/// A line of a bench of the crates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrateFigure {
    pub(crate) name: String,
    /// Low, middle and high, with units. Where peers take turns a multiple of ours follows.
    pub(crate) time: String,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) origin: Origin,
    pub(crate) rounds: usize,
    pub(crate) groups: Vec<Group>,
    /// The benches of the crates, which are no comparison.
    pub(crate) crates: Vec<CrateFigure>,
}

/// Cases that stand in one table: of one group, all oversubscribed or none.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) oversubscribed: bool,
    pub(crate) chart: Chart,
    pub(crate) rows: Vec<Row>,
}

/// A case.
#[derive(Debug)]
pub(crate) struct Row {
    /// The whole name.
    pub(crate) case: String,
    /// What distinguishes it in its group.
    pub(crate) label: String,
    pub(crate) question: String,
    pub(crate) series: Option<String>,
    pub(crate) x: Option<f64>,
    /// Ours first.
    pub(crate) pools: Vec<Outcome>,
}

/// A pool in a case.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) pool: String,
    /// Ours, a peer or a yardstick.
    pub(crate) role: Role,
    /// The headline metric first; or the sentence that says why there are none.
    pub(crate) figures: Result<Vec<Figure>, String>,
}

/// What a pool is to the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Ours,
    Peer,
    Yardstick,
}

/// A metric of a pool in a case, over all rounds.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) rounds: usize,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// `None` if ours lacks the metric.
    pub(crate) ratio: Option<Ratio>,
}

impl Outcome {
    /// The headline.
    pub(crate) fn headline(&self) -> Option<&Figure> {
        self.figures.as_ref().ok()?.first()
    }

    pub(crate) fn figure(&self, metric: &str) -> Option<&Figure> {
        let figures = self.figures.as_ref().ok()?;
        figures.iter().find(|figure| figure.metric == metric)
    }
}

impl Row {
    /// The peer that is hardest to beat, by the headline. Yardsticks are no peers.
    pub(crate) fn best_peer(&self) -> Option<(&Outcome, Ratio)> {
        self.pools
            .iter()
            .filter(|outcome| outcome.role == Role::Peer)
            .filter_map(|outcome| Some((outcome, outcome.headline()?.ratio?)))
            .min_by(|a, b| a.1.middle.total_cmp(&b.1.middle))
    }

    /// Name and unit of every metric that a pool has here, the headline first.
    pub(crate) fn metrics(&self) -> Vec<(&str, &str)> {
        let mut metrics = Vec::new();
        for figure in self
            .pools
            .iter()
            .flat_map(|pool| pool.figures.iter().flatten())
        {
            let metric = (&*figure.metric, &*figure.unit);
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
        metrics
    }
}

impl Group {
    /// With a suffix if it was oversubscribed.
    pub(crate) fn title(&self) -> String {
        let suffix = if self.oversubscribed {
            ", oversubscribed"
        } else {
            ""
        };
        format!("{}{suffix}", self.name)
    }

    /// All pools, in the order in which the cases name them.
    pub(crate) fn pools(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for outcome in self.rows.iter().flat_map(|row| &row.pools) {
            if !names.contains(&&*outcome.pool) {
                names.push(&*outcome.pool);
            }
        }
        names
    }

    /// What its cases answer, each question once.
    pub(crate) fn questions(&self) -> Vec<&str> {
        let mut questions = Vec::new();
        for row in &self.rows {
            if !questions.contains(&&*row.question) {
                questions.push(&*row.question);
            }
        }
        questions
    }
}

impl Report {
    /// Who failed where, and why.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&Row, &Outcome, &str)> {
        self.groups
            .iter()
            .flat_map(|group| &group.rows)
            .flat_map(|row| row.pools.iter().map(move |outcome| (row, outcome)))
            .filter_map(|(row, outcome)| {
                let sentence = outcome.figures.as_ref().err()?;
                Some((row, outcome, &**sentence))
            })
    }
}

/// Turns what the runs printed into the tables. `runs` is `[entry][pool]` like in the plan.
pub(crate) fn groups(plan: &Plan, runs: &[Vec<Runs>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (entry, runs) in plan.entries.iter().zip(runs) {
        let row = row(entry, runs);
        let (name, oversubscribed) = (&entry.case.group, entry.oversubscribed);
        let same =
            |group: &&mut Group| group.name == *name && group.oversubscribed == oversubscribed;
        if let Some(group) = groups.iter_mut().find(same) {
            group.rows.push(row);
        } else {
            groups.push(Group {
                name: name.clone(),
                oversubscribed,
                chart: entry.case.chart,
                rows: vec![row],
            });
        }
    }
    // The two groups of one name stand together.
    let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
    groups.sort_by_key(|group| names.iter().position(|name| *name == group.name));
    groups
}

fn row(entry: &Entry, runs: &[Runs]) -> Row {
    let ours = &runs[0];
    let pools = entry.pools.iter().zip(runs).enumerate();
    let pools = pools.map(|(index, (pool, runs))| Outcome {
        pool: pool.clone(),
        role: match index {
            0 => Role::Ours,
            _ if pool.starts_with(OURS) => Role::Ours,
            _ if pool.starts_with(YARDSTICK) => Role::Yardstick,
            _ => Role::Peer,
        },
        figures: match &runs.failure {
            Some(sentence) => Err(sentence.clone()),
            None => Ok(figures(runs, ours, index == 0)),
        },
    });
    Row {
        case: entry.name(),
        label: entry.label.clone(),
        question: entry.case.question.clone(),
        series: entry.case.series.clone(),
        x: entry.case.x,
        pools: pools.collect(),
    }
}

fn figures(runs: &Runs, ours: &Runs, is_ours: bool) -> Vec<Figure> {
    let metrics = runs.rounds.first().into_iter().flatten();
    let figures = metrics.filter_map(
        |Sample {
             metric,
             unit,
             better,
             ..
         }| {
            let values = values(runs, metric);
            let (min, max) = bounds(&values)?;
            let pairs: Vec<(f64, f64)> = runs
                .rounds
                .iter()
                .zip(&ours.rounds)
                .filter_map(|(theirs, ours)| Some((value(theirs, metric)?, value(ours, metric)?)))
                .collect();
            Some(Figure {
                metric: metric.clone(),
                unit: unit.clone(),
                rounds: values.len(),
                median: median(values.iter().copied())?,
                min,
                max,
                ratio: match (is_ours, &ours.failure) {
                    (true, _) => Some(Ratio::ONE),
                    (false, Some(_)) => None,
                    (false, None) => Ratio::of_pairs(&pairs, *better),
                },
            })
        },
    );
    figures.collect()
}

fn values(runs: &Runs, metric: &str) -> Vec<f64> {
    let rounds = runs.rounds.iter();
    rounds.filter_map(|round| value(round, metric)).collect()
}

fn value(round: &[Sample], metric: &str) -> Option<f64> {
    let sample = round.iter().find(|sample| sample.metric == metric)?;
    Some(sample.value)
}

fn bounds(values: &[f64]) -> Option<(f64, f64)> {
    let min = values.iter().copied().min_by(f64::total_cmp)?;
    let max = values.iter().copied().max_by(f64::total_cmp)?;
    Some((min, max))
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn cases_stand_in_their_groups_with_what_tells_them_apart() {
        let report = example::report();
        let titles: Vec<String> = report.groups.iter().map(Group::title).collect();
        let expected = [
            "Empty tasks",
            "Empty tasks, oversubscribed",
            "Wake-ups",
            "Wake-ups, oversubscribed",
            "Live workers",
            "Live workers, oversubscribed",
        ];
        assert_eq!(titles, expected);
        let labels: Vec<&str> = report.groups[0]
            .rows
            .iter()
            .map(|row| &*row.label)
            .collect();
        assert_eq!(labels, ["unlimited 1p", "unlimited 4p", "1024 1p"]);
        assert_eq!(report.groups[2].rows[0].label, "parked");
        assert_eq!(report.groups[1].rows[0].case, "empty/unlimited/1p+spin");
    }

    #[test]
    fn the_best_peer_is_no_yardstick_and_has_not_failed() {
        let report = example::report();
        let wake = &report.groups[2].rows[0];
        assert_eq!(wake.pools[3].role, Role::Yardstick);
        let (best, ratio) = wake.best_peer().expect("two peers ran");
        assert_eq!(best.pool, "crossbeam unbounded");
        assert!(ratio.low > 1.0, "{ratio:?}");
    }

    #[test]
    fn a_failed_pool_has_its_sentence_and_no_figures() {
        let report = example::report();
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(failures.len(), 1);
        let (row, outcome, sentence) = failures[0];
        assert_eq!(row.case, "empty/1024/1p");
        assert_eq!(
            (&*outcome.pool, sentence),
            ("tokio spawn", "it has no bound")
        );
        assert!(outcome.headline().is_none());
    }
}

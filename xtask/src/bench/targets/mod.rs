//! What the pool is to reach, and whether a run shows it.
//!
//! The list says which cases a target speaks of, beside whom and how much; whatever else the table
//! shows comes from the run's figures. A target that a run has no figures for is left out.
//!
//! Not for: what no figure shows. Such a target names where it is shown instead.
//!
//! # What always holds
//! 1. A target is met, or not, only if the whole interval of its ratio lies on that side.
//! 2. A target of many cases is as good as the worst of them, which is the one that is shown.

mod judge;
mod list;

use std::ops::RangeInclusive;

use super::plan::{Case, SPIN};
use super::report::{Report, Row};
use super::statistics::Ratio;
use super::tables::Table;
use super::words;

/// The metric that stands first in each case.
const HEADLINE: &str = "headline";

/// One line of what was promised.
struct Target {
    name: &'static str,
    asks: &'static [Ask],
    /// What else belongs to it, and what shows that.
    elsewhere: &'static [&'static str],
}

/// One thing that it asks, of some cases.
struct Ask {
    /// Beginnings of names; `*` is any word. With `+spin` at its end one means the oversubscribed
    /// cases, without it the others.
    cases: &'static [&'static str],
    metric: &'static str,
    beside: Beside,
    asked: Asked,
    /// Of the geometric mean over all cases, not of each.
    mean: bool,
    /// Machines that it is asked of.
    cores: RangeInclusive<usize>,
}

/// Whose figure ours is divided by, or divides.
#[derive(Clone, Copy)]
enum Beside {
    /// The figure counts as it is.
    Nothing,
    /// This pool.
    Pool(&'static str),
    /// The peer that is the hardest to beat, in each case another.
    Best,
    /// The hardest to beat of these.
    BestOf(&'static [&'static str]),
    /// Our own figure in the case whose name has the second word in the place of the first.
    Ours(&'static str, &'static str),
    /// Somebody whom no run of ours can start, and the figures of those who did, by case.
    Tabled(&'static str, &'static [(&'static str, f64)]),
}

#[derive(Clone, Copy)]
enum Asked {
    /// Ours is so many times better.
    AtLeast(f64),
    /// Ours is so many times the other's, or the figure is no greater.
    AtMost(f64),
    /// Nothing, it is shown only: how many times better ours is.
    Report,
}

impl Ask {
    const fn of(
        cases: &'static [&'static str],
        metric: &'static str,
        beside: Beside,
        asked: Asked,
    ) -> Self {
        Self {
            cases,
            metric,
            beside,
            asked,
            mean: false,
            cores: 1..=usize::MAX,
        }
    }

    const fn mean(mut self) -> Self {
        self.mean = true;
        self
    }

    const fn cores(mut self, cores: RangeInclusive<usize>) -> Self {
        self.cores = cores;
        self
    }

    /// Whether it speaks of the case.
    fn names(&self, case: &str) -> bool {
        self.cases.iter().any(|pattern| names(pattern, case))
    }

    /// Beside whom, in words.
    fn beside(&self) -> String {
        match self.beside {
            Beside::Nothing => String::new(),
            Beside::Pool(pool) | Beside::Tabled(pool, _) => pool.to_owned(),
            Beside::Best => "best peer".to_owned(),
            Beside::BestOf(pools) => pools.join(", "),
            Beside::Ours(_, word) => format!("ours, {word}"),
        }
    }

    /// How much, in words.
    fn asked(&self) -> String {
        match self.asked {
            Asked::AtLeast(times) => format!("≥ {}", words::factor(times)),
            Asked::AtMost(most) => format!("≤ {}", self.value(most)),
            Asked::Report => String::new(),
        }
    }

    /// A factor, or a figure as it is.
    fn value(&self, value: f64) -> String {
        match self.beside {
            Beside::Nothing => words::number(value),
            _ => words::precise_factor(value),
        }
    }
}

fn names(pattern: &str, case: &str) -> bool {
    let split = |name: &str| -> (String, bool) {
        let stripped = name.strip_suffix(SPIN);
        (stripped.unwrap_or(name).to_owned(), stripped.is_some())
    };
    let ((pattern, pattern_spins), (case, case_spins)) = (split(pattern), split(case));
    let mut words = case.split('/');
    pattern_spins == case_spins
        && pattern.split('/').all(|word| {
            words
                .next()
                .is_some_and(|other| word == "*" || word == other)
        })
}

/// What the figures say of an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Nothing was asked.
    Shown,
    Met,
    /// The interval lies on both sides of what is asked.
    WithinNoise,
    NotMet,
    /// Ours has no figure.
    Failed,
}

impl Verdict {
    /// In words.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::Met => "met",
            Self::WithinNoise => "within noise",
            Self::NotMet => "not met",
            Self::Failed => "failed",
        }
    }
}

/// What a case, or the mean over some, says of an ask.
#[derive(Debug, Clone, PartialEq)]
struct Judged {
    case: String,
    /// In the direction of the ask. `None` if ours has no figure.
    measured: Option<Ratio>,
    verdict: Verdict,
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Line {
    /// Of the target; each has one or more lines.
    pub(crate) name: &'static str,
    /// The metric, and beside whom.
    pub(crate) what: String,
    pub(crate) asked: String,
    /// The worst case, or the mean.
    pub(crate) measured: String,
    pub(crate) interval: String,
    /// Which one that is.
    pub(crate) case: String,
    /// In how many of how many cases it is met.
    pub(crate) met: String,
    pub(crate) verdict: Verdict,
}

impl Line {
    fn of(target: &Target, ask: &Ask, judged: &[Judged]) -> Option<Self> {
        let worst = judge::worst(ask, judged)?;
        let met = judged.iter().filter(|case| case.verdict == Verdict::Met);
        let beside = ask.beside();
        let comma = if beside.is_empty() { "" } else { ", " };
        Some(Self {
            name: target.name,
            what: format!("{}{comma}{beside}", ask.metric),
            asked: ask.asked(),
            measured: worst
                .measured
                .map_or_else(String::new, |of| ask.value(of.middle)),
            interval: worst.measured.map_or_else(String::new, words::interval),
            case: worst.case.clone(),
            met: match ask.asked {
                Asked::Report => judged.len().to_string(),
                _ => format!("{}/{}", met.count(), judged.len()),
            },
            verdict: worst.verdict,
        })
    }
}

/// The asks that can never be judged, for they speak of what none of `cases` has.
pub(crate) fn misnamed(cases: &[Case]) -> Vec<String> {
    let asks = list::ALL.iter().flat_map(|target| target.asks);
    asks.filter_map(|ask| judge::misnamed(ask, cases)).collect()
}

/// The lines that the run has figures for.
pub(crate) fn lines(report: &Report) -> Vec<Line> {
    lines_of(list::ALL, report)
}

fn lines_of(targets: &'static [Target], report: &Report) -> Vec<Line> {
    let rows: Vec<&Row> = report.groups.iter().flat_map(|group| &group.rows).collect();
    let of_target = |target: &'static Target| {
        let asks = target.asks.iter();
        let asks = asks.filter(|ask| ask.cores.contains(&report.origin.cores));
        let rows = &rows;
        asks.filter_map(move |ask| Line::of(target, ask, &judge::judge(ask, rows)))
    };
    targets.iter().flat_map(of_target).collect()
}

/// What the figures do not show, and what shows it.
pub(crate) fn elsewhere() -> Vec<String> {
    let each = list::ALL.iter().flat_map(|target| {
        let sentences = target.elsewhere.iter();
        sentences.map(move |sentence| format!("{}: {sentence}", target.name))
    });
    each.collect()
}

/// How many lines are met and so on, in words.
pub(crate) fn sentence(lines: &[Line]) -> String {
    let count = |verdict| {
        let lines = lines.iter().filter(|line| line.verdict == verdict);
        lines.count()
    };
    let failed = match count(Verdict::Failed) {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    format!(
        "{} met, {} within noise, {} not met{failed}",
        count(Verdict::Met),
        count(Verdict::WithinNoise),
        count(Verdict::NotMet)
    )
}

/// What the columns mean; stands below the table.
pub(crate) const LEGEND: &str = "≥: ours is so many times better; ≤: ours is so many times the \
    other's, or the figure is no greater. Measured is the worst of the cases, with the interval of \
    95 %; met and not met say that the whole interval lies on that side. `of` counts the cases in \
    which it is met.";

/// The columns' names.
pub(crate) const HEAD: [&str; 7] = [
    "target: figure, beside",
    "asked",
    "measured",
    "interval",
    "worst in",
    "of",
    "is",
];

/// All lines as a table; the name of a target stands above its lines.
pub(crate) fn table(lines: &[Line]) -> Table {
    let mut before = "";
    let rows = lines.iter().flat_map(|line| {
        let name = (line.name != before).then(|| {
            let mut cells = vec![String::new(); HEAD.len()];
            line.name.clone_into(&mut cells[0]);
            cells
        });
        before = line.name;
        let cells = [
            &format!("· {}", line.what),
            &line.asked,
            &line.measured,
            &line.interval,
            &line.case,
            &line.met,
            line.verdict.word(),
        ];
        let cells = cells.map(str::to_owned).to_vec();
        name.into_iter().chain([cells])
    });
    Table {
        rows: rows.collect(),
        head: HEAD.map(str::to_owned).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    const FEW: &[Target] = &[
        Target {
            name: "empty",
            asks: &[
                Ask::of(
                    &["empty"],
                    "wall",
                    Beside::Pool("rayon"),
                    Asked::AtLeast(4.0),
                ),
                Ask::of(
                    &["empty/1024"],
                    "wall",
                    Beside::Pool("rayon"),
                    Asked::AtLeast(1.0),
                ),
                Ask::of(
                    &["empty"],
                    "wall",
                    Beside::Pool("nobody"),
                    Asked::AtLeast(1.0),
                ),
                Ask::of(&["empty"], "wall", Beside::Best, Asked::Report),
            ],
            elsewhere: &[],
        },
        Target {
            name: "never run",
            asks: &[Ask::of(
                &["idle"],
                "cpu",
                Beside::Nothing,
                Asked::AtMost(0.0),
            )],
            elsewhere: &[],
        },
    ];

    #[test]
    fn a_pattern_names_cases_by_words_from_the_left() {
        for (pattern, case, expected) in [
            ("empty", "empty/1024/1p", true),
            ("empty/*/1p", "empty/1024/1p", true),
            ("empty/*/1p", "empty/1024/16p", false),
            ("empty/1024/1p/more", "empty/1024/1p", false),
            ("emp", "empty/1024/1p", false),
            ("empty", "empty/1024/1p+spin", false),
            ("empty+spin", "empty/1024/1p+spin", true),
            ("empty+spin", "empty/1024/1p", false),
            ("empty/*/1p+spin", "empty/1024/1p+spin", true),
        ] {
            assert_eq!(names(pattern, case), expected, "{pattern} {case}");
        }
    }

    #[test]
    fn a_line_shows_the_worst_case_and_what_has_no_figures_is_left_out() {
        let lines = lines_of(FEW, &example::report());
        let cells: Vec<Vec<String>> = table(&lines).rows;
        assert_eq!(cells.len(), 4, "{cells:#?}");
        assert_eq!(cells[0], ["empty", "", "", "", "", "", ""]);
        // Rayon takes 4.75 times ours without a bound, and as long with one.
        assert_eq!(cells[1][..2], ["· wall, rayon", "≥ 4.0x"]);
        assert_eq!(cells[1][4..], ["empty/1024/1p", "2/3", "not met"]);
        assert_eq!(cells[2][..2], ["· wall, rayon", "≥ 1.0x"]);
        assert_eq!(cells[2][4..], ["empty/1024/1p", "0/1", "within noise"]);
        assert_eq!(cells[3][..2], ["· wall, best peer", ""]);
        assert_eq!(cells[3][5..], ["3", "shown"]);
        assert_eq!(sentence(&lines), "0 met, 1 within noise, 1 not met");
    }

    #[test]
    fn what_is_asked_of_other_machines_is_left_out() {
        const BY_CORES: &[Target] = &[Target {
            name: "empty",
            asks: &[
                Ask::of(&["empty"], "wall", Beside::Best, Asked::AtLeast(1.0)).cores(1..=2),
                Ask::of(&["empty"], "cpu", Beside::Best, Asked::AtLeast(9.0)).cores(3..=4),
            ],
            elsewhere: &[],
        }];
        let mut report = example::report();
        assert_eq!(report.origin.cores, 2);
        let lines = lines_of(BY_CORES, &report);
        assert_eq!((lines.len(), &*lines[0].asked), (1, "≥ 1.0x"));
        report.origin.cores = 4;
        let lines = lines_of(BY_CORES, &report);
        assert_eq!((lines.len(), &*lines[0].asked), (1, "≥ 9.0x"));
    }
}

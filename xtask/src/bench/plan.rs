//! What is to be run, and in which order.
//!
//! Rounds are the outermost loop, so that a slow quarter of an hour spoils one round of all cases
//! and not all rounds of one. The pools of a case follow each other, so that they meet the same
//! weather, and each round begins with another of them (A B C, B C A, ...), so that none always
//! runs after the same neighbour.

use anyhow::{Context, Result};
use serde::Deserialize;

/// A case of the program `compare`, as it lists it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Case {
    /// Words separated by `/`, from general to particular.
    #[serde(rename = "case")]
    pub(crate) name: String,
    /// Cases of one group stand in one table.
    pub(crate) group: String,
    /// What the case answers.
    pub(crate) question: String,
    /// Ours first.
    pub(crate) pools: Vec<String>,
    /// Whether it is part of the quick version.
    #[serde(default)]
    pub(crate) quick: bool,
    /// The pools of the quick version, if they are fewer.
    #[serde(default)]
    pub(crate) quick_pools: Option<Vec<String>>,
    /// What shows it best.
    #[serde(default)]
    pub(crate) chart: Chart,
    /// The line of a scaling chart that it is a point of.
    #[serde(default)]
    pub(crate) series: Option<String>,
    /// Where on that line.
    #[serde(default)]
    pub(crate) x: Option<f64>,
    /// Its pools only sleep, so they may do it at the same time.
    #[serde(default)]
    pub(crate) together: bool,
}

/// How a group is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Chart {
    /// A bar for each pool.
    #[default]
    Bars,
    /// A line for each pool, over `x`.
    Scaling,
    /// The percentiles of each pool.
    Latency,
}

/// One case beside which nothing or a spinning process per core runs.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) case: Case,
    /// The words of its name that distinguish it in its group, wanted or not.
    pub(crate) label: String,
    pub(crate) oversubscribed: bool,
    /// Those that are asked for. Ours first.
    pub(crate) pools: Vec<String>,
}

impl Entry {
    /// The name in reports, which `--only` selects by.
    pub(crate) fn name(&self) -> String {
        name(&self.case, self.oversubscribed)
    }
}

/// Ends the names of the oversubscribed.
pub(crate) const SPIN: &str = "+spin";

fn name(case: &Case, oversubscribed: bool) -> String {
    let suffix = if oversubscribed { SPIN } else { "" };
    format!("{}{suffix}", case.name)
}

fn label(case: &Case, cases: &[Case]) -> String {
    let words: Vec<&str> = case.name.split('/').collect();
    let common = |mate: &Case| {
        let pairs = words.iter().zip(mate.name.split('/'));
        pairs.take_while(|(word, mate)| *word == mate).count()
    };
    let mates = cases.iter().filter(|mate| mate.group == case.group);
    let common = mates.map(common).min().unwrap_or_default();
    // The last word always distinguishes it.
    words[common.min(words.len() - 1)..].join(" ")
}

/// Whether a part of a name, as `--only` has it, selects the case. A part that ends with `+spin`
/// leaves out what is not oversubscribed.
fn selects(part: &str, case: &Case, oversubscribed: bool) -> bool {
    match part.strip_suffix(SPIN) {
        Some(part) => oversubscribed && case.name.contains(part),
        None => name(case, oversubscribed).contains(part),
    }
}

/// What the command line asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    pub(crate) quick: bool,
    /// Nothing oversubscribed.
    pub(crate) alone: bool,
    /// Parts of names of cases; none means all. `+spin` behind one selects the oversubscribed.
    pub(crate) only: Vec<String>,
    /// Parts of names of pools; none means all.
    pub(crate) peers: Vec<String>,
    pub(crate) rounds: Option<usize>,
}

/// All that is to be run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    pub(crate) entries: Vec<Entry>,
}

impl Plan {
    /// Picks from `cases` what is asked for.
    pub(crate) fn new(cases: &[Case], choice: &Choice) -> Self {
        let wanted = |case: &Case, oversubscribed| {
            let mut parts = choice.only.iter();
            choice.only.is_empty() || parts.any(|part| selects(part, case, oversubscribed))
        };
        let is_peer = |pool: &str| {
            let mut parts = choice.peers.iter();
            choice.peers.is_empty() || parts.any(|part| pool.contains(part.as_str()))
        };
        let neighbours: &[bool] = if choice.quick || choice.alone {
            &[false]
        } else {
            &[false, true]
        };
        let mut entries = Vec::new();
        for case in cases.iter().filter(|case| case.quick || !choice.quick) {
            let mut pools = match &case.quick_pools {
                Some(pools) if choice.quick => pools.clone(),
                _ => case.pools.clone(),
            };
            let ours = case.pools.first().cloned().unwrap_or_default();
            pools.retain(|pool| *pool != ours && is_peer(pool));
            pools.insert(0, ours);
            for &oversubscribed in neighbours {
                if wanted(case, oversubscribed) {
                    entries.push(Entry {
                        case: case.clone(),
                        label: label(case, cases),
                        oversubscribed,
                        pools: pools.clone(),
                    });
                }
            }
        }
        Self {
            rounds: choice.rounds.unwrap_or(if choice.quick { 3 } else { 7 }),
            quick: choice.quick,
            entries,
        }
    }

    /// How many processes will be started.
    pub(crate) fn runs(&self) -> usize {
        let a_round: usize = self.entries.iter().map(|entry| entry.pools.len()).sum();
        self.rounds * a_round
    }

    /// One round.
    pub(crate) fn round(&self, round: usize) -> impl Iterator<Item = Step> {
        self.entries
            .iter()
            .enumerate()
            .flat_map(move |(entry, of)| {
                let count = of.pools.len();
                let turns = (0..count).map(|turn| (round + turn) % count);
                let pools: Vec<Vec<usize>> = if of.case.together {
                    vec![turns.collect()]
                } else {
                    turns.map(|pool| vec![pool]).collect()
                };
                pools.into_iter().map(move |pools| Step { entry, pools })
            })
    }
}

/// What runs at one time: the index of an entry, and the indices of its pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) entry: usize,
    /// One, or all of an entry whose pools run together.
    pub(crate) pools: Vec<usize>,
}

/// Reads what `compare list` prints, one object per line.
pub(crate) fn cases(list: &str) -> Result<Vec<Case>> {
    list.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).with_context(|| format!("a case: {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
{"case":"empty/1p","group":"Empty","question":"What?","pools":["anthill","rayon","tokio spawn"],"quick":true,"quick_pools":["anthill","rayon"]}
{"case":"locks/4","group":"Locks","question":"How?","pools":["anthill","std"],"quick":false,"chart":"scaling","series":"short","x":4}
"#;

    fn plan(choice: &Choice) -> Plan {
        Plan::new(&cases(LIST).expect("it is well-formed"), choice)
    }

    fn names(plan: &Plan) -> Vec<String> {
        plan.entries.iter().map(Entry::name).collect()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn everything_runs_seven_times_alone_and_oversubscribed() {
        let plan = plan(&Choice::default());
        let expected = ["empty/1p", "empty/1p+spin", "locks/4", "locks/4+spin"];
        assert_eq!(names(&plan), expected);
        assert_eq!(plan.runs(), 7 * (3 + 3 + 2 + 2));
        assert_eq!(plan.entries[2].case.chart, Chart::Scaling);
    }

    #[test]
    fn what_runs_alone_runs_seven_times_and_never_oversubscribed() {
        let plan = plan(&Choice {
            alone: true,
            ..Choice::default()
        });
        assert_eq!(names(&plan), ["empty/1p", "locks/4"]);
        assert_eq!(plan.runs(), 7 * (3 + 2));
    }

    #[test]
    fn the_quick_version_has_three_rounds_of_the_quick_cases_and_their_quick_pools() {
        let plan = plan(&Choice {
            quick: true,
            ..Choice::default()
        });
        assert_eq!(names(&plan), ["empty/1p"]);
        assert_eq!(plan.entries[0].pools, ["anthill", "rayon"]);
        assert_eq!(plan.runs(), 6);
    }

    #[test]
    fn ours_runs_whoever_the_peers_are() {
        let plan = plan(&Choice {
            only: words(&["1p+spin", "nothing"]),
            peers: words(&["tokio"]),
            rounds: Some(1),
            ..Choice::default()
        });
        assert_eq!(names(&plan), ["empty/1p+spin"]);
        assert_eq!(plan.entries[0].pools, ["anthill", "tokio spawn"]);
        assert_eq!(plan.entries[0].label, "1p");
        assert_eq!(plan.runs(), 2);
    }

    #[test]
    fn a_part_with_spin_behind_it_selects_what_is_oversubscribed() {
        for (only, expected) in [
            (&["empty+spin"][..], &["empty/1p+spin"][..]),
            (&["+spin"], &["empty/1p+spin", "locks/4+spin"]),
            (&["empty"], &["empty/1p", "empty/1p+spin"]),
            (
                &["1p+spin", "locks"],
                &["empty/1p+spin", "locks/4", "locks/4+spin"],
            ),
        ] {
            let plan = plan(&Choice {
                only: words(only),
                ..Choice::default()
            });
            assert_eq!(names(&plan), expected, "{only:?}");
        }
    }

    #[test]
    fn pools_that_sleep_together_are_one_step_and_take_turns_to_be_the_first() {
        let list =
            r#"{"case":"idle","group":"I","question":"?","pools":["a","b"],"together":true}"#;
        let plan = Plan::new(&cases(list).expect("well-formed"), &Choice::default());
        let steps: Vec<Step> = plan.round(1).collect();
        let step = |entry| Step {
            entry,
            pools: vec![1, 0],
        };
        assert_eq!(steps, [step(0), step(1)]);
        assert_eq!(plan.runs(), 7 * 4);
    }

    #[test]
    fn a_label_tells_a_case_from_its_group_even_if_it_runs_alone() {
        let case = |name: &str| {
            format!(r#"{{"case":"{name}","group":"G","question":"?","pools":["anthill"]}}"#)
        };
        let list = ["empty/2w/1p", "empty/2w/4p", "empty/4w/1p"].map(case);
        let cases = cases(&list.join("\n")).expect("well-formed");
        let choice = Choice {
            only: words(&["2w/4p"]),
            ..Choice::default()
        };
        assert_eq!(Plan::new(&cases, &choice).entries[0].label, "2w 4p");
        let alone = Plan::new(&cases[..1], &Choice::default());
        assert_eq!(alone.entries[0].label, "1p");
    }

    #[test]
    fn each_round_begins_with_another_pool() {
        let plan = plan(&Choice {
            only: words(&["empty"]),
            quick: false,
            ..Choice::default()
        });
        let order = |round| {
            plan.round(round)
                .filter(|step| step.entry == 0)
                .flat_map(|step| step.pools)
                .collect::<Vec<_>>()
        };
        assert_eq!(order(0), [0, 1, 2]);
        assert_eq!(order(1), [1, 2, 0]);
        assert_eq!(order(5), [2, 0, 1]);
    }
}

//! The plan of a comparison: which runs, in which order.
//!
//! Rounds are the outermost loop, so that a slow quarter of an hour affects one round of all cases
//! and not all rounds of one case. The pools of a case run one after the other, so that they meet
//! the same load. Each round begins with another pool (A B C, B C A, ...), so that no pool always
//! runs after the same neighbour.

use anyhow::{Context, Result};
use measure::report::Metric;
use serde::Deserialize;

use crate::program::{Outcome, Run};

/// A case as a program lists it. Its name consists of words separated by `/`, from general to
/// particular.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    #[serde(rename = "case")]
    pub name: String,
    pub group: String,
    pub question: String,
    /// Ours first.
    pub pools: Vec<String>,
    #[serde(default)]
    pub quick: bool,
    #[serde(default)]
    pub quick_pools: Option<Vec<String>>,
    /// Its pools only sleep, so they may run at the same time.
    #[serde(default)]
    pub together: bool,
}

/// Parses the output of `list`, one object per line.
pub fn cases(list: &str) -> Result<Vec<Case>> {
    list.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).with_context(|| format!("a case: {line}")))
        .collect()
}

/// The suffix of cases that run next to one spinning process per core.
const SPIN: &str = "+spin";

/// A case, alone or oversubscribed, with the selected pools.
#[derive(Debug)]
pub struct Entry {
    pub case: Case,
    pub oversubscribed: bool,
    pub pools: Vec<String>,
}

impl Entry {
    pub fn name(&self) -> String {
        let suffix = if self.oversubscribed { SPIN } else { "" };
        format!("{}{suffix}", self.case.name)
    }

    /// The suffix `+spin` selects only oversubscribed cases.
    fn contains(&self, part: &str) -> bool {
        match part.strip_suffix(SPIN) {
            Some(part) => self.oversubscribed && self.case.name.contains(part),
            None => self.name().contains(part),
        }
    }
}

/// The selection of the command line.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    pub quick: bool,
    /// No oversubscribed cases.
    pub alone: bool,
    /// Parts of names of cases; empty selects all.
    pub only: Vec<String>,
    /// Parts of names of peers; empty selects all. Ours always runs.
    pub peers: Vec<String>,
    pub rounds: usize,
}

#[derive(Debug)]
pub struct Plan {
    rounds: usize,
    quick: bool,
    pub entries: Vec<Entry>,
}

/// The output of one pool in one entry of the plan.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    pub rounds: Vec<Vec<Metric>>,
    /// A pool that has failed does not run again, because one that hangs would cost a minute per
    /// round.
    pub failure: Option<String>,
}

impl Plan {
    pub fn new(cases: &[Case], choice: &Choice) -> Self {
        let is_peer = |pool: &str| {
            choice.peers.is_empty() || choice.peers.iter().any(|part| pool.contains(&**part))
        };
        let mut entries = Vec::new();
        for case in cases.iter().filter(|case| case.quick || !choice.quick) {
            let quick_pools = case.quick_pools.as_ref().filter(|_| choice.quick);
            let mut pools = quick_pools.unwrap_or(&case.pools).clone();
            let ours = case.pools.first().cloned().unwrap_or_default();
            pools.retain(|pool| *pool != ours && is_peer(pool));
            pools.insert(0, ours);
            for oversubscribed in [false, true] {
                let entry = Entry {
                    case: case.clone(),
                    oversubscribed,
                    pools: pools.clone(),
                };
                let mut only = choice.only.iter();
                let is_wanted = choice.only.is_empty() || only.any(|part| entry.contains(part));
                if is_wanted && !(oversubscribed && (choice.alone || choice.quick)) {
                    entries.push(entry);
                }
            }
        }
        Self {
            rounds: choice.rounds,
            quick: choice.quick,
            entries,
        }
    }

    /// Runs everything round by round. Returns `[entry][pool]`. `run` gets the runs to make at the
    /// same time.
    pub fn run(&self, run: impl Fn(&[Run<'_>]) -> Vec<Outcome>) -> Vec<Vec<Runs>> {
        let empty = |entry: &Entry| vec![Runs::default(); entry.pools.len()];
        let mut all: Vec<_> = self.entries.iter().map(empty).collect();
        for round in 0..self.rounds {
            println!("bench: round {} of {}", round + 1, self.rounds);
            for (entry, runs) in self.entries.iter().zip(&mut all) {
                let count = entry.pools.len();
                let turns: Vec<usize> = (0..count).map(|turn| (round + turn) % count).collect();
                let at_once = if entry.case.together { count } else { 1 };
                for pools in turns.chunks(at_once) {
                    self.step(entry, pools, runs, &run);
                }
            }
        }
        all
    }

    /// Runs those of `pools` that have not failed.
    fn step(
        &self,
        entry: &Entry,
        pools: &[usize],
        all: &mut [Runs],
        run: impl Fn(&[Run<'_>]) -> Vec<Outcome>,
    ) {
        let sound = pools.iter().filter(|&&pool| all[pool].failure.is_none());
        let sound: Vec<usize> = sound.copied().collect();
        let runs = sound.iter().enumerate().map(|(index, &pool)| Run {
            case: &entry.case.name,
            pool: &entry.pools[pool],
            quick: self.quick,
            // The first one starts the spinning processes, so that there is one per core.
            oversubscribed: entry.oversubscribed && index == 0,
        });
        let runs: Vec<Run<'_>> = runs.collect();
        for (pool, outcome) in sound.into_iter().zip(run(&runs)) {
            match outcome {
                Ok(samples) => all[pool].rounds.push(samples),
                Err(why) => {
                    eprintln!("failed: {} {}: {why}", entry.name(), entry.pools[pool]);
                    all[pool].failure = Some(why);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const LIST: &str = r#"
{"case":"empty/1p","group":"Empty","question":"What?","pools":["anthill","rayon","tokio spawn"],"quick":true,"quick_pools":["anthill","rayon"]}
{"case":"locks/4","group":"Locks","question":"How?","pools":["anthill","std"]}
"#;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn names(choice: &Choice) -> Vec<String> {
        let plan = Plan::new(&cases(LIST).expect("well-formed"), choice);
        plan.entries.iter().map(Entry::name).collect()
    }

    /// The runs of a plan; those at the same time in one string. `b` fails.
    fn script(list: &str, choice: &Choice) -> (Vec<String>, Vec<Vec<Runs>>) {
        let ran = RefCell::<Vec<String>>::default();
        let plan = Plan::new(&cases(list).expect("well-formed"), choice);
        let all = plan.run(|runs| {
            let mark = |run: &Run<'_>| if run.oversubscribed { "+spin" } else { "" };
            let words = runs.iter();
            let words: Vec<_> = words.map(|it| format!("{}{}", it.pool, mark(it))).collect();
            if !words.is_empty() {
                ran.borrow_mut().push(words.join(", "));
            }
            let outcome = |run: &Run<'_>| match run.pool {
                "b" => Err("it fell over".to_owned()),
                _ => Ok(Vec::new()),
            };
            runs.iter().map(outcome).collect()
        });
        (ran.into_inner(), all)
    }

    #[test]
    fn cases_are_selected_by_parts_of_their_names() {
        let all = ["empty/1p", "empty/1p+spin", "locks/4", "locks/4+spin"];
        assert_eq!(names(&Choice::default()), all);
        for (only, expected) in [
            (&["empty+spin"][..], &["empty/1p+spin"][..]),
            (&["+spin"], &["empty/1p+spin", "locks/4+spin"]),
            (&["empty", "no"], &["empty/1p", "empty/1p+spin"]),
        ] {
            let choice = Choice {
                only: words(only),
                ..Choice::default()
            };
            assert_eq!(names(&choice), expected);
        }
        let (alone, quick) = (true, true);
        let choice = Choice {
            alone,
            ..Choice::default()
        };
        assert_eq!(names(&choice), ["empty/1p", "locks/4"]);
        let choice = Choice {
            quick,
            ..Choice::default()
        };
        assert_eq!(names(&choice), ["empty/1p"]);
    }

    #[test]
    fn ours_runs_with_the_selected_peers_and_a_quick_run_has_its_own() {
        let mut choice = Choice {
            peers: words(&["tokio"]),
            ..Choice::default()
        };
        let pools = |choice: &Choice| {
            let plan = Plan::new(&cases(LIST).expect("well-formed"), choice);
            plan.entries[0].pools.clone()
        };
        assert_eq!(pools(&choice), ["anthill", "tokio spawn"]);
        choice.quick = true;
        assert_eq!(pools(&choice), ["anthill"]);
        choice.peers.clear();
        assert_eq!(pools(&choice), ["anthill", "rayon"]);
    }

    #[test]
    fn each_round_begins_with_another_pool_and_a_failed_pool_does_not_run_again() {
        let choice = Choice {
            alone: true,
            rounds: 3,
            ..Choice::default()
        };
        let list = r#"{"case":"x","group":"X","question":"?","pools":["a","b","c"]}"#;
        let (ran, all) = script(list, &choice);
        assert_eq!(ran, ["a", "b", "c", "c", "a", "c", "a"]);
        assert_eq!(all[0][0].rounds.len(), 3);
        assert_eq!(all[0][1].failure.as_deref(), Some("it fell over"));
    }

    #[test]
    fn one_of_several_concurrent_pools_starts_the_spinning_processes() {
        let choice = Choice {
            rounds: 2,
            ..Choice::default()
        };
        let list =
            r#"{"case":"x","group":"X","question":"?","pools":["a","b","c"],"together":true}"#;
        let expected = ["a, b, c", "a+spin, b, c", "c, a", "c+spin, a"];
        assert_eq!(script(list, &choice).0, expected);
    }
}

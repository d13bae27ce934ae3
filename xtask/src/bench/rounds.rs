//! Runs a plan, and keeps what each run printed.

use indicatif::ProgressBar;

use super::plan::{Plan, Step};
use super::program::{Run, Runner, Sample};

/// What one pool did in one entry of the plan.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    /// One for each round, in order, as long as nothing failed.
    pub(crate) rounds: Vec<Vec<Sample>>,
    /// Why it failed. After a failure it runs no more: a pool that hangs would cost a minute in
    /// each round.
    pub(crate) failure: Option<String>,
}

/// Runs everything, round by round; `[entry][pool]` like in the plan.
pub(crate) fn run(plan: &Plan, runner: &mut impl Runner, bar: &ProgressBar) -> Vec<Vec<Runs>> {
    let nothing = Runs {
        rounds: Vec::new(),
        failure: None,
    };
    let mut all: Vec<Vec<Runs>> = plan
        .entries
        .iter()
        .map(|entry| vec![nothing.clone(); entry.pools.len()])
        .collect();
    for round in 0..plan.rounds {
        if bar.is_hidden() {
            println!("round {} of {}", round + 1, plan.rounds);
        }
        for step in plan.round(round) {
            bar.set_message(message(plan, &step));
            step_once(plan, runner, bar, &step, &mut all[step.entry]);
            bar.inc(step.pools.len() as u64);
        }
    }
    bar.finish_and_clear();
    all
}

/// What runs now.
fn message(plan: &Plan, step: &Step) -> String {
    let entry = &plan.entries[step.entry];
    match step.pools[..] {
        [pool] => format!("{} {}", entry.name(), entry.pools[pool]),
        _ => entry.name(),
    }
}

/// Runs those of the step that have not failed yet.
fn step_once(
    plan: &Plan,
    runner: &mut impl Runner,
    bar: &ProgressBar,
    step: &Step,
    all: &mut [Runs],
) {
    let entry = &plan.entries[step.entry];
    let pools = step.pools.iter().copied();
    let pools: Vec<usize> = pools.filter(|&pool| all[pool].failure.is_none()).collect();
    let runs = pools.iter().enumerate().map(|(index, &pool)| Run {
        case: &entry.case.name,
        pool: &entry.pools[pool],
        quick: plan.quick,
        // One of them brings the neighbours, for there shall be one per core.
        oversubscribed: entry.oversubscribed && index == 0,
    });
    let runs: Vec<Run<'_>> = runs.collect();
    if runs.is_empty() {
        return;
    }
    for (pool, outcome) in pools.into_iter().zip(runner.run(&runs)) {
        match outcome {
            Ok(samples) => all[pool].rounds.push(samples),
            Err(sentence) => {
                let (name, pool_name) = (entry.name(), &entry.pools[pool]);
                bar.suspend(|| eprintln!("failed: {name} {pool_name}: {sentence}"));
                all[pool].failure = Some(sentence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Choice, cases};
    use super::super::program::Outcome;
    use super::*;

    /// What ran, those that ran together in one string.
    struct Script(Vec<String>);

    impl Runner for Script {
        fn run(&mut self, runs: &[Run<'_>]) -> Vec<Outcome> {
            let mark = |run: &Run<'_>| if run.oversubscribed { "+spin" } else { "" };
            let words = runs
                .iter()
                .map(|run| format!("{} {}{}", run.case, run.pool, mark(run)));
            self.0.push(words.collect::<Vec<_>>().join(", "));
            let outcomes = runs.iter().map(|run| match run.pool {
                "b" => Err("it fell over".to_owned()),
                _ => Ok(Vec::new()),
            });
            outcomes.collect()
        }
    }

    #[test]
    fn of_pools_that_sleep_together_one_brings_the_neighbours() {
        let list =
            r#"{"case":"x","group":"X","question":"?","pools":["a","b","c"],"together":true}"#;
        let choice = Choice {
            rounds: Some(2),
            ..Choice::default()
        };
        let plan = Plan::new(&cases(list).expect("well-formed"), &choice);
        let mut script = Script(Vec::new());
        let runs = run(&plan, &mut script, &ProgressBar::hidden());
        let expected = [
            "x a, x b, x c",
            "x a+spin, x b, x c",
            "x c, x a",
            "x c+spin, x a",
        ];
        assert_eq!(script.0, expected);
        assert_eq!(runs[1][0].rounds.len(), 2);
        assert!(runs[1][1].failure.is_some());
    }

    #[test]
    fn a_failure_stops_its_pool_and_nothing_else() {
        let list = r#"{"case":"x","group":"X","question":"?","pools":["a","b"]}"#;
        let choice = Choice {
            only: vec!["x".to_owned()],
            rounds: Some(3),
            ..Choice::default()
        };
        let mut plan = Plan::new(&cases(list).expect("well-formed"), &choice);
        plan.entries.truncate(1);
        let mut script = Script(Vec::new());
        let runs = run(&plan, &mut script, &ProgressBar::hidden());
        assert_eq!(script.0, ["x a", "x b", "x a", "x a"]);
        assert_eq!(runs[0][0].rounds.len(), 3);
        assert_eq!(runs[0][1].failure.as_deref(), Some("it fell over"));
    }
}

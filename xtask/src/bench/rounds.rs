//! Runs a plan, and keeps what each run printed.

use indicatif::ProgressBar;

use super::plan::Plan;
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
        for (index, pool) in plan.round(round) {
            let entry = &plan.entries[index];
            let runs = &mut all[index][pool];
            let (name, pool) = (entry.name(), &entry.pools[pool]);
            bar.set_message(format!("{name} {pool}"));
            if runs.failure.is_none() {
                let run = Run {
                    case: &entry.case.name,
                    pool,
                    quick: plan.quick,
                    oversubscribed: entry.oversubscribed,
                };
                match runner.run(&run) {
                    Ok(samples) => runs.rounds.push(samples),
                    Err(sentence) => {
                        bar.suspend(|| eprintln!("failed: {name} {pool}: {sentence}"));
                        runs.failure = Some(sentence);
                    }
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    all
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Choice, cases};
    use super::*;

    struct Script(Vec<String>);

    impl Runner for Script {
        fn run(&mut self, run: &Run<'_>) -> Result<Vec<Sample>, String> {
            self.0.push(format!("{} {}", run.case, run.pool));
            if run.pool == "b" {
                return Err("it fell over".to_owned());
            }
            Ok(Vec::new())
        }
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

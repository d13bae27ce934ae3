//! Invented figures, for the tests of the formats.

use indicatif::ProgressBar;

use super::origin::Origin;
use super::plan::{Choice, Plan, cases};
use super::program::{Outcome, Run, Runner, Sample};
use super::report::{self, CrateFigure, Report};
use super::rounds;
use super::statistics::Better;

const LIST: &str = r#"
{"case":"empty/unlimited/1p","group":"Empty tasks","question":"What does an empty task cost?","pools":["anthill","rayon","crossbeam unbounded","tokio spawn"],"quick":true}
{"case":"empty/unlimited/4p","group":"Empty tasks","question":"What does an empty task cost?","pools":["anthill","rayon","crossbeam unbounded","tokio spawn"]}
{"case":"empty/1024/1p","group":"Empty tasks","question":"What does an empty task cost?","pools":["anthill","rayon","tokio spawn"]}
{"case":"wake/parked","group":"Wake-ups","question":"How soon does a task start on a parked worker?","pools":["anthill","rayon","crossbeam unbounded","bare futex wake"],"chart":"latency"}
{"case":"live/4","group":"Live workers","question":"What do idle workers cost the others?","pools":["anthill","rayon"],"chart":"scaling","series":"empty tasks","x":4}
{"case":"live/1000","group":"Live workers","question":"What do idle workers cost the others?","pools":["anthill","rayon"],"chart":"scaling","series":"empty tasks","x":1000}
{"case":"live/10000","group":"Live workers","question":"What do idle workers cost the others?","pools":["anthill","rayon"],"chart":"scaling","series":"empty tasks","x":10000}
"#;

/// A report with everything in it: a win, a loss, noise, a failure, a yardstick, each chart.
pub(super) fn report() -> Report {
    let plan = Plan::new(&cases(LIST).expect("well-formed"), &Choice::default());
    let mut pools = Pools { run: 0 };
    let runs = rounds::run(&plan, &mut pools, &ProgressBar::hidden());
    Report {
        origin: Origin {
            machine: "A processor, 2 cores".to_owned(),
            kernel: "Linux 6".to_owned(),
            compiler: "rustc 1".to_owned(),
            commit: "abc1234".to_owned(),
            date: "2026-01-02 03:04 UTC".to_owned(),
            load_before: "0.10".to_owned(),
            load_after: "2.00".to_owned(),
        },
        rounds: plan.rounds,
        groups: report::groups(&plan, &runs),
        crates: vec![CrateFigure {
            name: "locks/<1>".to_owned(),
            time: "8.0 ns 8.1 ns 8.2 ns".to_owned(),
        }],
    }
}

struct Pools {
    run: u32,
}

impl Runner for Pools {
    fn run(&mut self, runs: &[Run<'_>]) -> Vec<Outcome> {
        runs.iter().map(|run| self.one(run)).collect()
    }
}

impl Pools {
    fn one(&mut self, run: &Run<'_>) -> Outcome {
        self.run += 1;
        if run.case == "empty/1024/1p" && run.pool == "tokio spawn" && !run.oversubscribed {
            return Err("it has no bound".to_owned());
        }
        let base = match run.pool {
            "anthill" => 40.0,
            "bare futex wake" => 38.0,
            "crossbeam unbounded" if run.case == "empty/unlimited/4p" => 20.0,
            "crossbeam unbounded" => 120.0,
            "rayon" if run.case == "empty/1024/1p" => 40.0,
            "rayon" => 190.0,
            _ => 2500.0,
        };
        let noise = 1.0 + f64::from(self.run * 7919 % 13) / 100.0;
        let growth = match run.case {
            "live/1000" => 1.1,
            "live/10000" if run.pool == "rayon" => 6.0,
            "live/10000" => 1.3,
            _ => 1.0,
        };
        let value = base * noise * growth;
        let sample = |metric: &str, unit: &str, value| Sample {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value,
            better: Better::Lower,
        };
        let mut samples = if run.case.starts_with("wake") {
            let percentiles = [("p50", 0.1), ("p99", 0.4), ("p99.9", 2.0), ("max", 9.0)];
            percentiles
                .map(|(metric, factor)| sample(metric, "us", value * factor))
                .to_vec()
        } else {
            vec![sample("wall", "ns/task", value)]
        };
        samples.push(sample("cpu", "ns/task", value * 1.5));
        samples.push(sample("memory", "MiB", 3.5));
        Ok(samples)
    }
}

//! How long the rest of a plan takes.
//!
//! Runs differ by a factor of a hundred, so their number says little. What has run once will take as
//! long again; what has not is taken for an average one of its kind, alone or oversubscribed. So
//! the first round is guessed, and from the second on the time is told within some per cent.

use std::collections::HashMap;
use std::time::Duration;

use super::plan::{Plan, Step};

/// What is left of a plan.
#[derive(Debug)]
pub(crate) struct Remaining {
    steps: HashMap<(usize, usize), Known>,
}

/// A step of each round, known by its entry and the least of its pools.
#[derive(Debug)]
struct Known {
    oversubscribed: bool,
    /// How many rounds it has still to run in.
    rounds: u32,
    last: Option<Duration>,
}

fn key(step: &Step) -> (usize, usize) {
    (step.entry, step.pools.iter().copied().min().unwrap_or(0))
}

impl Remaining {
    /// All of it.
    pub(crate) fn of(plan: &Plan) -> Self {
        let known = |step: &Step| Known {
            oversubscribed: plan.entries[step.entry].oversubscribed,
            rounds: u32::try_from(plan.rounds).unwrap_or(u32::MAX),
            last: None,
        };
        let steps = plan.round(0).map(|step| (key(&step), known(&step)));
        Self {
            steps: steps.collect(),
        }
    }

    /// The step has run once more, and took so long.
    pub(crate) fn took(&mut self, step: &Step, time: Duration) {
        if let Some(known) = self.steps.get_mut(&key(step)) {
            known.rounds = known.rounds.saturating_sub(1);
            known.last = Some(time);
        }
    }

    /// `None` before anything has run.
    fn time(&self) -> Option<Duration> {
        let average = |oversubscribed: Option<bool>| {
            let steps = self.steps.values().filter(|step| {
                oversubscribed.is_none_or(|oversubscribed| step.oversubscribed == oversubscribed)
            });
            let times: Vec<Duration> = steps.filter_map(|step| step.last).collect();
            let sum: Duration = times.iter().sum();
            sum.checked_div(u32::try_from(times.len()).unwrap_or(u32::MAX))
        };
        let any = average(None)?;
        let [alone, beside] = [false, true].map(|kind| average(Some(kind)).unwrap_or(any));
        let each = self.steps.values().map(|step| {
            let unknown = if step.oversubscribed { beside } else { alone };
            step.last.unwrap_or(unknown) * step.rounds
        });
        Some(each.sum())
    }

    /// `, 38 min left`, or nothing before anything has run.
    pub(crate) fn words(&self) -> String {
        self.time()
            .map_or_else(String::new, |time| match time.as_secs() {
                seconds @ ..120 => format!(", {seconds} s left"),
                seconds => format!(", {} min left", (seconds + 30) / 60),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Choice, cases};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Two rounds of three steps alone and three oversubscribed.
    fn plan() -> Plan {
        let list = r#"
{"case":"x","group":"X","question":"?","pools":["a","b"]}
{"case":"y","group":"X","question":"?","pools":["a","b"],"together":true}"#;
        let choice = Choice {
            rounds: Some(2),
            ..Choice::default()
        };
        Plan::new(&cases(list).expect("well-formed"), &choice)
    }

    #[test]
    fn nothing_is_said_before_anything_has_run() {
        assert_eq!(Remaining::of(&plan()).words(), "");
    }

    #[test]
    fn what_has_not_run_is_an_average_one_of_its_kind() {
        let plan = plan();
        let mut remaining = Remaining::of(&plan);
        let steps: Vec<Step> = plan.round(0).collect();
        assert_eq!(steps.len(), 6);
        remaining.took(&steps[0], 10 * SECOND);
        // Nothing oversubscribed has run: each of the six is as long, one round of one is over.
        assert_eq!(remaining.time(), Some(110 * SECOND));
        remaining.took(&steps[2], 20 * SECOND);
        let (alone, beside) = (10 + 2 * 10 + 2 * 10, 20 + 2 * 20 + 2 * 20);
        assert_eq!(remaining.time(), Some((alone + beside) * SECOND));
        remaining.took(&steps[3], 20 * SECOND);
        let beside = 20 + 20 + 2 * 20;
        assert_eq!(remaining.time(), Some((alone + beside) * SECOND));
    }

    #[test]
    fn what_has_run_takes_as_long_again_and_at_the_end_nothing_is_left() {
        let plan = plan();
        let mut remaining = Remaining::of(&plan);
        for (step, seconds) in plan.round(0).zip(1..) {
            remaining.took(&step, seconds * SECOND);
        }
        assert_eq!(remaining.time(), Some(21 * SECOND));
        assert_eq!(remaining.words(), ", 21 s left");
        for step in plan.round(1) {
            remaining.took(&step, 1000 * SECOND);
        }
        assert_eq!(remaining.time(), Some(Duration::ZERO));
    }
}

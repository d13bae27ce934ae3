//! Parses the output of a model's process.

use std::fmt;

use anyhow::{Result, bail};

use crate::process::Ended;

/// A completed exploration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Completed {
    /// The model's name.
    pub(crate) name: String,
    /// Maximum number of pre-emptions per execution, or `none`.
    pub(crate) bound: String,
    /// Number of explored executions.
    pub(crate) iterations: u64,
}

impl Completed {
    /// Parses `model NAME: completed in N iterations (bound B)`. The line may begin with the test
    /// harness's `test PATH ... `.
    fn parse(line: &str) -> Option<Self> {
        let line = match line.strip_prefix("test ") {
            Some(rest) => rest.split_once(" ... ")?.1,
            None => line,
        };
        let (name, rest) = line.strip_prefix("model ")?.split_once(": completed in ")?;
        let (iterations, bound) = rest.split_once(" iterations (bound ")?;
        Some(Self {
            name: name.to_owned(),
            bound: bound.strip_suffix(')')?.to_owned(),
            iterations: iterations.parse().ok()?,
        })
    }
}

/// The verdict on a model test.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Every exploration was completed.
    Passed(Vec<Completed>),
    /// An execution failed.
    Failed(Cause),
    /// The test exceeded its limit.
    TimedOut,
}

impl Verdict {
    /// Judges the end of a process that ran one test.
    pub(crate) fn of(ended: &Ended) -> Result<Self> {
        if let Some(failure) = Self::of_failure(ended) {
            return Ok(failure);
        }
        let completed: Vec<_> = ended.output.lines().filter_map(Completed::parse).collect();
        // A test that must panic never completes its model.
        if completed.is_empty() && !ended.output.contains(" - should panic") {
            bail!("the test passed without completing a model");
        }
        Ok(Self::Passed(completed))
    }

    pub(crate) fn of_failure(ended: &Ended) -> Option<Self> {
        match ended.status {
            None => Some(Self::TimedOut),
            Some(status) if status.success() => None,
            Some(_) => Some(Self::Failed(Cause::parse(&ended.output))),
        }
    }
}

/// The cause of a failed execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A panic, usually of an assertion.
    Panic,
    /// No thread can run.
    Deadlock,
    /// Two accesses to a cell are not ordered.
    Causality,
    /// An object is still allocated at the end.
    Leak,
    /// An execution does not end.
    Livelock,
    /// The process ended abnormally without a panic.
    Abort,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panic => "assertion",
            Self::Deadlock => "deadlock",
            Self::Causality => "causality",
            Self::Leak => "leak",
            Self::Livelock => "livelock",
            Self::Abort => "abort",
        })
    }
}

impl Cause {
    /// Parses the messages of loom. Only the first panic counts, because unwinding from it often
    /// panics again.
    pub(crate) fn parse(output: &str) -> Self {
        let Some(panic) = output.split("panicked at").nth(1) else {
            return Self::Abort;
        };
        let causes = [
            ("Causality violation", Self::Causality),
            ("deadlock; threads", Self::Deadlock),
            ("leaked.", Self::Leak),
            ("exceeded maximum number of branches", Self::Livelock),
        ];
        let cause = causes.iter().find(|(words, _)| panic.contains(words));
        cause.map_or(Self::Panic, |(_, cause)| *cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completed_model_is_recognized_with_and_without_harness_output() {
        let expected = Completed {
            name: "release racing submit".to_owned(),
            bound: "none".to_owned(),
            iterations: 7256,
        };
        let line = "model release racing submit: completed in 7256 iterations (bound none)";
        assert_eq!(Completed::parse(line), Some(expected.clone()));
        let line = format!("test life::release ... {line}");
        assert_eq!(Completed::parse(&line), Some(expected));
        for line in [
            "",
            "test a ... ok",
            "model a: completed in many iterations (bound 2)",
            "model a: completed in 5 iterations",
            "the model a: completed in 5 iterations (bound 2)",
        ] {
            assert_eq!(Completed::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_first_panic_determines_the_cause() {
        for (output, cause) in [
            (
                "panicked at a:\nCausality violation\n panicked at b:\n deadlock; threads",
                Cause::Causality,
            ),
            ("panicked at a:\n deadlock; threads = [..]", Cause::Deadlock),
            (
                "panicked at a:\nassertion failed\n panicked at b:\n Arc leaked.",
                Cause::Panic,
            ),
            ("signal", Cause::Abort),
        ] {
            assert_eq!(Cause::parse(output), cause);
        }
    }

    #[test]
    fn a_test_that_passes_without_a_model_is_an_error() {
        assert!(Verdict::of(&Ended::of("true", "test b ... ok")).is_err());
        let panics = Ended::of("true", "test b - should panic ... ok");
        assert!(matches!(Verdict::of(&panics), Ok(Verdict::Passed(_))));
        let dies = Verdict::of(&Ended::of("false", ""));
        assert!(matches!(dies, Ok(Verdict::Failed(Cause::Abort))));
    }
}

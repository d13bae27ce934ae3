//! Configuration of a series.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::plan::{Missed, Plan, nanos};

/// Policy for a panic in a run of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnPanic {
    /// The series ends, and its handle returns the panic.
    #[default]
    Stop,
    /// The pool counts the panic and calls its panic hook, and the series continues with the same closure.
    /// The panic may have left the closure's captures in an inconsistent state.
    Continue,
}

/// Configuration of a series: a fixed rate or a fixed delay, and its policies.
///
/// ```
/// use std::num::NonZeroU64;
/// use std::time::Duration;
/// use scheduled_pool::{Missed, OnPanic, Series};
///
/// let hourly = Series::at_fixed_rate(Duration::from_secs(3600))
///     .missed(Missed::Burst)
///     .on_panic(OnPanic::Continue)
///     .max_runs(NonZeroU64::new(24).expect("it is not 0"));
/// # let _ = hourly;
/// ```
#[must_use = "a `Series` does nothing until it is passed to `spawn_series`"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    rhythm: Rhythm,
    missed: Missed,
    pub(crate) on_panic: OnPanic,
    pub(crate) max_runs: Option<NonZeroU64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rhythm {
    FixedRate(Duration),
    FixedDelay(Duration),
}

impl Series {
    fn new(rhythm: Rhythm) -> Self {
        Self {
            rhythm,
            missed: Missed::default(),
            on_panic: OnPanic::default(),
            max_runs: None,
        }
    }

    /// Returns a series with one run per period. Periods count from due times, so a late run does not shift later
    /// ones.
    pub fn at_fixed_rate(period: Duration) -> Self {
        Self::new(Rhythm::FixedRate(period))
    }

    /// Returns a series whose next run is due `delay` after the previous run has ended.
    pub fn with_fixed_delay(delay: Duration) -> Self {
        Self::new(Rhythm::FixedDelay(delay))
    }

    /// Sets the policy for missed ticks. A series with a fixed delay never misses one.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Sets the policy for a panic in a run.
    pub fn on_panic(mut self, on_panic: OnPanic) -> Self {
        self.on_panic = on_panic;
        self
    }

    /// Ends the series after `runs` runs, including runs that panicked. Its handle then joins with `Ok`.
    pub fn max_runs(mut self, runs: NonZeroU64) -> Self {
        self.max_runs = Some(runs);
        self
    }

    /// The configuration of a returned series, with the runs that are left.
    pub(crate) fn of(plan: Plan, on_panic: OnPanic, runs: Option<u64>) -> Self {
        let rhythm = match plan {
            Plan::FixedRate { period, .. } => Rhythm::FixedRate(Duration::from_nanos(period)),
            Plan::FixedDelay { delay } => Rhythm::FixedDelay(Duration::from_nanos(delay)),
            Plan::Once => unreachable!("a task with one run is no series"),
        };
        let missed = match plan {
            Plan::FixedRate { missed, .. } => missed,
            _ => Missed::default(),
        };
        Self {
            rhythm,
            missed,
            on_panic,
            max_runs: runs.and_then(NonZeroU64::new),
        }
    }

    /// Returns `None` for a period or a delay of 0.
    pub(crate) fn plan(&self) -> Option<Plan> {
        let plan = match self.rhythm {
            Rhythm::FixedRate(Duration::ZERO) | Rhythm::FixedDelay(Duration::ZERO) => return None,
            Rhythm::FixedRate(period) => Plan::FixedRate {
                period: nanos(period),
                missed: self.missed,
            },
            Rhythm::FixedDelay(delay) => Plan::FixedDelay {
                delay: nanos(delay),
            },
        };
        Some(plan)
    }
}

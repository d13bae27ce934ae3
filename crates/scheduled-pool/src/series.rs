//! How a series behaves.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::plan::{Missed, Plan, nanos};

/// What a panic in one run does to a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnPanic {
    /// It ends the series; the handle has the panic.
    #[default]
    Stop,
    /// The pool counts it and calls its panic hook, and the series goes on with the same closure,
    /// whose captures are in the state that the panic left them in.
    Continue,
}

/// How a series behaves: a rhythm, and what departs from the defaults.
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
#[must_use = "a series is only described here; `spawn_series` starts it"]
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

    /// One run per period, counted from when each was due, however late it came.
    pub fn at_fixed_rate(period: Duration) -> Self {
        Self::new(Rhythm::FixedRate(period))
    }

    /// From the end of each run to the due time of the next, `delay` passes.
    pub fn with_fixed_delay(delay: Duration) -> Self {
        Self::new(Rhythm::FixedDelay(delay))
    }

    /// What becomes of missed ticks. With a fixed delay there are none.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// What a panic does.
    pub fn on_panic(mut self, on_panic: OnPanic) -> Self {
        self.on_panic = on_panic;
        self
    }

    /// Ends the series after so many runs, those that panicked included; its handle then joins
    /// with `Ok`.
    pub fn max_runs(mut self, runs: NonZeroU64) -> Self {
        self.max_runs = Some(runs);
        self
    }

    /// The series of that plan, with so many runs.
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

    /// `None` for a period or a delay of 0.
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

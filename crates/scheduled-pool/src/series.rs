//! How a series behaves.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::plan::{Plan, nanos};

/// What becomes of a tick at which the run before, waiting or running, had not ended.
///
/// Each such tick is counted as missed, whatever becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// It is dropped: the next run is at the next tick that is still to come.
    #[default]
    Skip,
    /// It is made up for: missed runs follow one another at once until the series has caught up.
    /// A clock that jumps by an hour makes for an hour's worth of runs.
    Burst,
    /// It is late: it comes when the run before has ended, and the ticks after it are counted
    /// from there.
    Delay,
}

/// What a panic in one run does to a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnPanic {
    /// It ends the series; the handle has the panic.
    #[default]
    Stop,
    /// The pool counts it and tells its panic hook, and the series goes on with the same closure,
    /// in whatever state the panic left what it captured.
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
    Rate(Duration),
    Rest(Duration),
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
        Self::new(Rhythm::Rate(period))
    }

    /// From the end of each run to the due time of the next, `delay` passes.
    pub fn with_fixed_delay(delay: Duration) -> Self {
        Self::new(Rhythm::Rest(delay))
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

    /// `None` for a period or a delay of 0.
    pub(crate) fn plan(&self) -> Option<Plan> {
        let plan = match self.rhythm {
            Rhythm::Rate(Duration::ZERO) | Rhythm::Rest(Duration::ZERO) => return None,
            Rhythm::Rate(period) => Plan::Rate {
                period: nanos(period),
                missed: self.missed,
            },
            Rhythm::Rest(delay) => Plan::Rest {
                delay: nanos(delay),
            },
        };
        Some(plan)
    }
}

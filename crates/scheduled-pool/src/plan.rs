//! The next due time of a schedule: pure arithmetic over nanoseconds.
//!
//! # Invariants
//! 1. No calculation overflows: a due time that is too far away is [`NEVER`].
//! 2. A step takes constant time, however many ticks the clock has jumped over.

use std::time::Duration;

use delay_queue::NEVER;

/// Policy for missed ticks: ticks at which the previous run was still waiting for room or running.
///
/// Every such tick is counted in [`Stats::missed`](crate::Stats::missed), whichever the policy.
///
/// ```
/// use scheduled_pool::{Missed, Series};
/// use std::time::Duration;
///
/// // Every tick has a run, even if it is late.
/// let accounts = Series::at_fixed_rate(Duration::from_secs(60)).missed(Missed::Burst);
/// # let _ = accounts;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// Skips missed ticks: the next run is at the next tick in the future.
    #[default]
    Skip,
    /// Catches up: missed runs follow each other without a pause. After the clock has jumped by an hour,
    /// an hour's worth of runs follows.
    Burst,
    /// Shifts the series: the missed run starts when the previous one has ended, and later ticks count
    /// from there.
    Delay,
}

/// When the next run is due after a run. Times are nanoseconds since the epoch of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Never: the task runs once.
    Once,
    /// At the next tick.
    FixedRate {
        /// Time between ticks, not 0.
        period: u64,
        /// Policy for missed ticks.
        missed: Missed,
    },
    /// After a delay that begins when the run ends.
    FixedDelay {
        /// The delay.
        delay: u64,
    },
}

/// The next run of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) due: u64,
    /// Number of ticks that passed during the run.
    pub(crate) missed: u64,
}

/// Converts a duration to nanoseconds; [`NEVER`] if it is too long.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

impl Plan {
    /// For bodies that name the delay after each run.
    pub(crate) const UNTIL_SAID: Self = Self::FixedDelay { delay: NEVER };

    pub(crate) fn is_series(self) -> bool {
        self != Self::Once
    }

    /// Returns the run after the one that was due at `due` and ended at `ended`.
    pub(crate) fn next(self, due: u64, ended: u64) -> Next {
        match self {
            Self::Once => Next {
                due: NEVER,
                missed: 0,
            },
            Self::FixedDelay { delay } => Next {
                due: ended.saturating_add(delay),
                missed: 0,
            },
            Self::FixedRate { period, missed } => {
                let tick = due.saturating_add(period);
                if tick >= ended {
                    return Next {
                        due: tick,
                        missed: 0,
                    };
                }
                match missed {
                    Missed::Skip => {
                        // The first tick that is not before the end.
                        let steps = (ended - due).div_ceil(period);
                        Next {
                            due: due.saturating_add(steps.saturating_mul(period)),
                            missed: steps - 1,
                        }
                    }
                    Missed::Burst => Next {
                        due: tick,
                        missed: 1,
                    },
                    Missed::Delay => Next {
                        due: ended,
                        missed: 1,
                    },
                }
            }
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(period: u64, missed: Missed) -> Plan {
        Plan::FixedRate { period, missed }
    }

    #[test]
    fn a_run_that_ends_at_the_next_tick_has_not_missed_it() {
        for missed in [Missed::Skip, Missed::Burst, Missed::Delay] {
            let next = rate(10, missed).next(100, 110);
            assert_eq!((next.due, next.missed), (110, 0));
        }
    }

    #[test]
    fn a_run_that_ends_after_it_has_missed_it() {
        let next = |missed| {
            let next = rate(10, missed).next(100, 131);
            (next.due, next.missed)
        };
        assert_eq!(next(Missed::Skip), (140, 3)); // 110, 120, 130
        assert_eq!(next(Missed::Burst), (110, 1));
        assert_eq!(next(Missed::Delay), (131, 1));
    }

    #[test]
    fn due_times_too_far_away_are_never() {
        assert_eq!(nanos(Duration::MAX), NEVER);
        for missed in [Missed::Skip, Missed::Burst, Missed::Delay] {
            assert_eq!(rate(NEVER, missed).next(5, 6).due, NEVER);
            assert_eq!(rate(10, missed).next(NEVER - 5, NEVER - 4).due, NEVER);
        }
        assert_eq!(Plan::FixedDelay { delay: NEVER }.next(5, 6).due, NEVER);
    }

    proptest! {
        #[test]
        fn steps_agree_with_walking_the_grid_tick_by_tick(
            due in 0_u64..1000,
            period in 1_u64..50,
            late in 0_u64..1000,
        ) {
            let ended = due + late;
            let (mut tick, mut missed) = (due + period, 0);
            while tick < ended {
                tick += period;
                missed += 1;
            }
            prop_assert_eq!(rate(period, Missed::Skip).next(due, ended), Next { due: tick, missed });

            // A burst takes one step per missed tick, here without time passing in between.
            let (mut at, mut steps) = (due, 0);
            loop {
                let next = rate(period, Missed::Burst).next(at, ended);
                at = next.due;
                steps += next.missed;
                if next.missed == 0 {
                    break;
                }
            }
            prop_assert_eq!((at, steps), (tick, missed));
        }

        #[test]
        fn no_times_overflow(
            due: u64,
            period in 1_u64..,
            ended: u64,
            policy in 0_usize..3,
        ) {
            let missed = [Missed::Skip, Missed::Burst, Missed::Delay][policy];
            // Holds for a clock that goes backwards as well.
            let next = rate(period, missed).next(due, ended);
            prop_assert!(next.due > due || next.due == NEVER);
            if missed != Missed::Burst {
                prop_assert!(next.due >= ended);
            }
            let rest = Plan::FixedDelay { delay: period };
            prop_assert!(rest.next(due, ended).due >= ended);
        }
    }
}

//! When a job that repeats is due: a cron pattern, in UTC or in a time zone.
//!
//! Not for: keeping time. A store keeps the text of a schedule with its job, and the pump that
//! acknowledges the job asks here for the next time.
//!
//! # What always holds
//! 1. A next time is later than the one that it is asked for.
//! 2. The text of a schedule reads as that schedule, in this version and in later ones.

use std::{error, fmt};

use crate::time::StoreTime;

/// The next time of a schedule after `after`, none if there is no further one.
#[cfg(feature = "cron")]
pub(crate) fn next_after(
    text: &str,
    after: StoreTime,
) -> Result<Option<StoreTime>, UnreadableSchedule> {
    let schedule: Schedule = text.parse().map_err(|_| UnreadableSchedule)?;
    Ok(schedule.next_after(after))
}

/// Here no schedule can be read.
#[cfg(not(feature = "cron"))]
pub(crate) fn next_after(_: &str, _: StoreTime) -> Result<Option<StoreTime>, UnreadableSchedule> {
    Err(UnreadableSchedule)
}

/// The schedule of a job says nothing here: a newer version wrote it, or there is no feature `cron`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreadableSchedule;

impl fmt::Display for UnreadableSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job's schedule cannot be read here")
    }
}

impl error::Error for UnreadableSchedule {}

#[cfg(feature = "cron")]
pub use self::cron::{Schedule, ScheduleError};

#[cfg(feature = "cron")]
mod cron {
    use std::str::FromStr;
    use std::{error, fmt};

    use croner::Cron;
    use croner::errors::CronError;
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use crate::time::StoreTime;

    /// What stands before a pattern whose times are those of a time zone.
    const ZONE: &str = "CRON_TZ=";

    /// When a job that [repeats](crate::DurableQueue::push_repeating) is due.
    ///
    /// It is a [cron pattern](https://docs.rs/croner): minute, hour, day of the month, month, day of the week;
    /// with six fields the first one is the second. `@hourly` and its like are understood, and
    /// `L`, `W` and `#`.
    ///
    /// Its times are in UTC, which knows no daylight saving: no hour is left out or comes twice.
    /// With a time zone, as `CRON_TZ=Europe/Berlin 30 2 * * *` or by [`in_zone`](Self::in_zone), they are
    /// those of the clocks there. A time of day that is left out when clocks are put forward comes
    /// just after the gap; one that there is twice when they are put back comes once; patterns of
    /// every hour or every few minutes go on without a break. The rules of zones are the
    /// machine's: without its database of zones there is UTC alone.
    ///
    /// ```
    /// use durable_queue::{Schedule, StoreTime};
    ///
    /// let mornings: Schedule = "0 7 * * MON-FRI".parse()?;
    /// let saturday = StoreTime::from_micros(1_000_000 * 86_400 * 2); // 1970 began on a Thursday.
    /// let monday = StoreTime::from_micros(1_000_000 * (86_400 * 4 + 7 * 3_600));
    /// assert_eq!(mornings.next_after(saturday), Some(monday));
    /// # Ok::<(), durable_queue::ScheduleError>(())
    /// ```
    #[derive(Clone, Debug)]
    pub struct Schedule {
        text: String,
        cron: Cron,
        zone: TimeZone,
    }

    impl Schedule {
        /// The same pattern by the clocks of a time zone, as `Europe/Berlin`.
        ///
        /// # Errors
        /// [`ScheduleError::Zone`] for one that the machine does not know.
        pub fn in_zone(&self, zone: &str) -> Result<Self, ScheduleError> {
            let pattern = self
                .text
                .rsplit_once(ZONE)
                .map_or(&*self.text, |(_, rest)| {
                    rest.split_once(' ').map_or("", |(_, pattern)| pattern)
                });
            format!("{ZONE}{zone} {pattern}").parse()
        }

        /// As it can be parsed again.
        pub fn as_str(&self) -> &str {
            &self.text
        }

        /// The first time after this one. None if there is no further one.
        pub fn next_after(&self, time: StoreTime) -> Option<StoreTime> {
            // A pattern knows whole seconds: rounded down, the second that follows is later.
            let second = time.as_micros().div_euclid(1_000_000);
            let from = Timestamp::from_second(second).ok()?;
            let next = self
                .cron
                .find_next_occurrence(&from.to_zoned(self.zone.clone()), false);
            let next = StoreTime::from_micros(next.ok()?.timestamp().as_microsecond());
            (next > time).then_some(next)
        }
    }

    impl FromStr for Schedule {
        type Err = ScheduleError;

        fn from_str(text: &str) -> Result<Self, ScheduleError> {
            let text = text.trim();
            let (zone, pattern) = match text.strip_prefix(ZONE) {
                None => (TimeZone::UTC, text),
                Some(rest) => {
                    let (name, pattern) = rest.split_once(' ').ok_or(ScheduleError::Zone)?;
                    let zone = TimeZone::get(name).map_err(|_| ScheduleError::Zone)?;
                    (zone, pattern)
                }
            };
            let cron = pattern.parse();
            let cron =
                cron.map_err(|error: CronError| ScheduleError::Pattern(error.to_string()))?;
            Ok(Self {
                text: text.to_owned(),
                cron,
                zone,
            })
        }
    }

    /// Two of the same text are the same.
    impl PartialEq for Schedule {
        fn eq(&self, other: &Self) -> bool {
            self.text == other.text
        }
    }

    impl Eq for Schedule {}

    impl fmt::Display for Schedule {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.text)
        }
    }

    /// A text is no schedule.
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    pub enum ScheduleError {
        /// It is no cron pattern, for this reason.
        Pattern(String),
        /// The machine knows no such time zone.
        Zone,
    }

    impl fmt::Display for ScheduleError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Pattern(why) => write!(f, "there is no such cron pattern: {why}"),
                Self::Zone => f.write_str("there is no such time zone on this machine"),
            }
        }
    }

    impl error::Error for ScheduleError {}
}

//! Schedules of repeating jobs: cron patterns, in UTC or in a time zone.
//!
//! Stores keep a schedule as text with its job. The pump that acknowledges the job parses it and computes the
//! next time.
//!
//! # Invariants
//! 1. The time after `t` is later than `t`.
//! 2. A schedule's text can be parsed by this version and all later ones.

use std::{error, fmt};

use crate::store::time::StoreTime;

/// Returns the time of a schedule after `after`, or `None` if there is none.
#[cfg(feature = "cron")]
pub(crate) fn next_after(
    text: &str,
    after: StoreTime,
) -> Result<Option<StoreTime>, UnreadableSchedule> {
    let schedule: Schedule = text.parse().map_err(|_| UnreadableSchedule)?;
    Ok(schedule.next_after(after))
}

/// Without the feature `cron`, no schedule can be parsed.
#[cfg(not(feature = "cron"))]
pub(crate) fn next_after(_: &str, _: StoreTime) -> Result<Option<StoreTime>, UnreadableSchedule> {
    Err(UnreadableSchedule)
}

/// The job's schedule cannot be parsed: a newer version wrote it, or the feature `cron` is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreadableSchedule;

impl fmt::Display for UnreadableSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job's schedule cannot be parsed by this process")
    }
}

impl error::Error for UnreadableSchedule {}

#[cfg(feature = "cron")]
pub use self::cron::{Schedule, ScheduleError};

#[cfg(feature = "cron")]
mod cron {
    use std::str::FromStr;
    use std::{error, fmt, mem};

    use croner::errors::CronError;
    use croner::time::{Weekday, days_in_month};
    use croner::{Cron, CronPattern, YEAR_LOWER_LIMIT, YEAR_UPPER_LIMIT};
    use jiff::Timestamp;
    use jiff::civil::{Date, DateTime};
    use jiff::tz::{AmbiguousOffset, TimeZone};

    use crate::store::time::StoreTime;

    /// Prefix of a pattern in a time zone.
    const ZONE: &str = "CRON_TZ=";

    /// Schedule of a [repeating](crate::DurableQueue::push_repeating) job.
    ///
    /// A [cron pattern](https://docs.rs/croner): minute, hour, day of the month, month, day of the week. With
    /// six fields, the first is the second. Nicknames like `@hourly` are supported, as are `L`, `W` and `#`.
    ///
    /// Times are in UTC by default, without daylight saving. A time zone is given by a prefix, as in
    /// `CRON_TZ=Europe/Berlin 30 2 * * *`, or by [`in_zone`](Self::in_zone). Zones come from the machine's
    /// time zone database; without it, only UTC is available.
    ///
    /// | clocks | fixed times of day: `30 2 * * *`, `0 0,12 * * *` | `*` in the hour or minute, or all hours: `*/20 * * * *` |
    /// |---|---|---|
    /// | are put forward | A skipped time runs once, just after the gap. | Skipped times do not run. |
    /// | are put back | A repeated time runs once, the first time. | A repeated time runs twice. |
    /// | skip a whole day, as in Samoa in 2011 | The day has no runs. | The day has no runs. |
    ///
    /// Vixie cron distinguishes the two kinds of patterns in the same way. systemd's timers skip times in a
    /// gap.
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
    #[derive(Clone)]
    pub struct Schedule {
        text: String,
        cron: Cron,
        zone: TimeZone,
        /// Whether the pattern names fixed times of day, without `*` in the hour or the minute.
        is_of_day: bool,
    }

    impl Schedule {
        /// Returns the same pattern in a time zone, such as `Europe/Berlin`.
        ///
        /// # Errors
        /// [`ScheduleError::Zone`] if the machine does not know the zone.
        pub fn in_zone(&self, zone: &str) -> Result<Self, ScheduleError> {
            let pattern = self
                .text
                .rsplit_once(ZONE)
                .map_or(&*self.text, |(_, rest)| {
                    rest.split_once(' ').map_or("", |(_, pattern)| pattern)
                });
            format!("{ZONE}{zone} {pattern}").parse()
        }

        /// Returns the schedule's text, which can be parsed again.
        pub fn as_str(&self) -> &str {
            &self.text
        }

        /// Returns the first time after `time`, or `None` if there is none.
        pub fn next_after(&self, time: StoreTime) -> Option<StoreTime> {
            // Patterns have a resolution of one second. Rounding down is correct, because the search starts
            // after that second.
            let second = time.as_micros().div_euclid(1_000_000);
            let from = Timestamp::from_second(second).ok()?;
            let next = if self.is_of_day {
                self.next_of_day(from)
            } else {
                let from = from.to_zoned(self.zone.clone());
                let next = self.cron.find_next_occurrence(&from, false).ok();
                next.map(|next| next.timestamp())
            };
            let next = StoreTime::from_micros(next?.as_microsecond());
            (next > time).then_some(next)
        }

        /// Evaluates the pattern in UTC on local times, so that clock changes do not affect it.
        fn next_of_day(&self, from: Timestamp) -> Option<Timestamp> {
            let mut local = self.zone.to_datetime(from).to_zoned(TimeZone::UTC).ok()?;
            loop {
                local = self.cron.find_next_occurrence(&local, false).ok()?;
                // A result that is not in the future is a repeated time, or the end of a gap.
                match self.when(local.datetime()) {
                    Some(when) if when > from => return Some(when),
                    _ => (),
                }
            }
        }

        /// Returns the first time at which local clocks show `local`, or the end of the gap that skips it.
        /// `None` if the whole day is skipped.
        fn when(&self, local: DateTime) -> Option<Timestamp> {
            match self.zone.to_ambiguous_timestamp(local).offset() {
                AmbiguousOffset::Unambiguous { offset: before }
                | AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
                AmbiguousOffset::Gap { before, after } => {
                    // By the old offset, `within` is in the gap or at its start, so the clock change is the
                    // last one up to then.
                    let within = before.to_timestamp(local).ok()?;
                    let until = Timestamp::from_nanosecond(within.as_nanosecond() + 1).ok()?;
                    let end = self.zone.preceding(until).next()?.timestamp();
                    let (first, last) = (before.to_datetime(end), after.to_datetime(end));
                    let midnight = |date: Date| date.to_datetime(jiff::civil::Time::midnight());
                    let day = local.date();
                    let is_left_out =
                        first <= midnight(day) && last >= midnight(day.tomorrow().ok()?);
                    (!is_left_out).then_some(end)
                }
            }
        }
    }

    /// Vixie cron's rule, except that a list of all 24 hours counts as hourly.
    fn is_of_day(pattern: &CronPattern) -> bool {
        let CronPattern { hours, minutes, .. } = pattern;
        !hours.from_wildcard && !minutes.from_wildcard && hours.values().len() < 24
    }

    /// Returns whether a day of any year matches. There are 14 calendars: a year begins with one of seven
    /// weekdays, and is a leap year or not.
    fn has_days(pattern: &CronPattern) -> bool {
        let mut seen = [[false; 2]; 7];
        let years =
            (YEAR_LOWER_LIMIT..=YEAR_UPPER_LIMIT).filter_map(|year| i16::try_from(year).ok());
        for year in years.filter(|year| pattern.year_match((*year).into()).unwrap_or(false)) {
            let first = Date::constant(year, 1, 1);
            let weekday = first.weekday().to_sunday_zero_offset().unsigned_abs();
            let is_seen = &mut seen[usize::from(weekday)][usize::from(first.in_leap_year())];
            if !mem::replace(is_seen, true) {
                if has_day_in(pattern, year.into(), weekday.into()) {
                    return true;
                }
                if seen.iter().flatten().all(|is_seen| *is_seen) {
                    break;
                }
            }
        }
        false
    }

    /// Like `has_days`, for a year whose first day is the weekday `first`.
    fn has_day_in(pattern: &CronPattern, year: i32, first: u32) -> bool {
        let mut before = first;
        for month in 1..=12 {
            let days = days_in_month(year, month);
            let is_matching = |day: u32| {
                let weekday = Weekday::from_days_from_sunday((before + day - 1) % 7);
                pattern
                    .day_match(year, month, day, weekday)
                    .unwrap_or(false)
            };
            if pattern.month_match(month).unwrap_or(false) && (1..=days).any(is_matching) {
                return true;
            }
            before += days;
        }
        false
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
            let cron: Cron =
                cron.map_err(|error: CronError| ScheduleError::Pattern(error.to_string()))?;
            if !has_days(&cron.pattern) {
                return Err(ScheduleError::Never);
            }
            Ok(Self {
                text: text.to_owned(),
                is_of_day: is_of_day(&cron.pattern),
                cron,
                zone,
            })
        }
    }

    /// Compares the texts.
    impl PartialEq for Schedule {
        fn eq(&self, other: &Self) -> bool {
            self.text == other.text
        }
    }

    impl Eq for Schedule {}

    /// Shows the text: a pattern contains a table of 5,000 years.
    impl fmt::Debug for Schedule {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_tuple("Schedule").field(&self.text).finish()
        }
    }

    impl fmt::Display for Schedule {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.text)
        }
    }

    /// Error of parsing a schedule.
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    pub enum ScheduleError {
        /// The text is not a cron pattern, for this reason.
        Pattern(String),
        /// The machine does not know the time zone.
        Zone,
        /// No day of any year matches the pattern, as with the 30th of February.
        Never,
    }

    impl fmt::Display for ScheduleError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Pattern(why) => write!(f, "invalid cron pattern: {why}"),
                Self::Zone => f.write_str("unknown time zone on this machine"),
                Self::Never => f.write_str("no day of any year matches this cron pattern"),
            }
        }
    }

    impl error::Error for ScheduleError {}
}

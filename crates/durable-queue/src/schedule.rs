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
    use std::{error, fmt, mem};

    use croner::errors::CronError;
    use croner::time::{Weekday, days_in_month};
    use croner::{Cron, CronPattern, YEAR_LOWER_LIMIT, YEAR_UPPER_LIMIT};
    use jiff::Timestamp;
    use jiff::civil::{Date, DateTime};
    use jiff::tz::{AmbiguousOffset, TimeZone};

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
    /// those of the clocks there. The rules of zones are the machine's: without its database of zones there is
    /// UTC alone.
    ///
    /// | the clocks | times of day, as `30 2 * * *` or `0 0,12 * * *` | an hour or minute with `*`, as `*/20 * * * *`, or all hours |
    /// |---|---|---|
    /// | are put forward | A time that is left out comes just after the gap, once. | Times that are left out do not come. |
    /// | are put back | A time that there is twice comes once, the first time. | It comes both times. |
    /// | leave out a whole day, as Samoa did in 2011 | That day has no runs. | That day has no runs. |
    ///
    /// Vixie cron tells the two kinds of patterns apart in the same way. systemd's timers leave out what falls into
    /// a gap.
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
        /// It names times of day, and does not go by the hour or the minute.
        is_of_day: bool,
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

        /// The pattern is asked as in a zone whose clocks are never set.
        fn next_of_day(&self, from: Timestamp) -> Option<Timestamp> {
            let mut local = self.zone.to_datetime(from).to_zoned(TimeZone::UTC).ok()?;
            loop {
                local = self.cron.find_next_occurrence(&local, false).ok()?;
                // What has passed is a time that there is twice, or the end of a gap.
                match self.when(local.datetime()) {
                    Some(when) if when > from => return Some(when),
                    _ => (),
                }
            }
        }

        /// When clocks show a time first, or when they have left it out. None if they leave out its day.
        fn when(&self, local: DateTime) -> Option<Timestamp> {
            match self.zone.to_ambiguous_timestamp(local).offset() {
                AmbiguousOffset::Unambiguous { offset: before }
                | AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
                AmbiguousOffset::Gap { before, after } => {
                    // By the old offset it is in the gap, or at its beginning: the change is the last one until then.
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

    /// Vixie cron's rule. And what lists all hours goes by the hour.
    fn is_of_day(pattern: &CronPattern) -> bool {
        let CronPattern { hours, minutes, .. } = pattern;
        !hours.from_wildcard && !minutes.from_wildcard && hours.values().len() < 24
    }

    /// Whether a day of any year matches. There are 14 calendars: a year begins with any day of the week, and has a
    /// 29th of February or has none.
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

    /// Of a year that begins with that day of the week.
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

    /// Two of the same text are the same.
    impl PartialEq for Schedule {
        fn eq(&self, other: &Self) -> bool {
            self.text == other.text
        }
    }

    impl Eq for Schedule {}

    /// Its text: a pattern holds a table of 5,000 years.
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

    /// A text is no schedule.
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    pub enum ScheduleError {
        /// It is no cron pattern, for this reason.
        Pattern(String),
        /// The machine knows no such time zone.
        Zone,
        /// No day of any year matches the pattern, as the 30th of February.
        Never,
    }

    impl fmt::Display for ScheduleError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Pattern(why) => write!(f, "there is no such cron pattern: {why}"),
                Self::Zone => f.write_str("there is no such time zone on this machine"),
                Self::Never => f.write_str("no day of any year matches this cron pattern"),
            }
        }
    }

    impl error::Error for ScheduleError {}
}

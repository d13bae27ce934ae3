//! Parsing and printing of times.

use std::time::{Duration, SystemTime};

use durable_queue::{StoreTime, When};
use jiff::fmt::friendly::{FractionalUnit, Spacing, SpanPrinter};
use jiff::{Span, SpanRelativeTo, Timestamp};

use crate::failure::Failure;
use crate::flags::Time;

/// Parses a duration such as `1h30m`. A day has 24 hours.
pub(crate) fn span(text: &str) -> Result<Duration, Failure> {
    let refused = || {
        Failure::Usage(format!(
            "`{text}` is not a duration such as 90s, 1h30m or 2d"
        ))
    };
    let span: Span = text.parse().map_err(|_| refused())?;
    let days = SpanRelativeTo::days_are_24_hours();
    let span = span.to_duration(days).map_err(|_| refused())?;
    Duration::try_from(span).map_err(|_| refused())
}

/// Returns a duration in the format of [`span`], such as `1h30m` or `0.25s`.
pub(crate) fn length(span: Duration) -> String {
    SpanPrinter::new()
        .spacing(Spacing::None)
        .fractional(Some(FractionalUnit::Second))
        .unsigned_duration_to_string(&span)
}

pub(crate) fn when(time: &Time) -> Result<When, Failure> {
    if let Some(after) = &time.after {
        return Ok(span(after)?.into());
    }
    let Some(at) = &time.at else {
        return Ok(When::NOW);
    };
    let refused = |_| Failure::Usage(format!("`{at}` is not a time such as 2031-05-01T09:00:00Z"));
    let at: Timestamp = at.parse().map_err(refused)?;
    // Rounded up, so that no job is early.
    Ok(SystemTime::from(at).into())
}

/// Returns the time in UTC, to the microsecond.
pub(crate) fn shown(time: StoreTime) -> String {
    match Timestamp::from_microsecond(time.as_micros()) {
        Ok(at) => format!("{at:.6}"),
        Err(_) if time.as_micros() > 0 => "never".to_owned(),
        Err(_) => "ever".to_owned(),
    }
}

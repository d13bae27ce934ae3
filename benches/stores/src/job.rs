//! The jobs of the comparison: text, which all peers support.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The length of the text.
const BYTES: usize = 100;
/// The digits of the due time.
const DIGITS: usize = 20;

/// A job that contains its due time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// In microseconds since 1970.
    pub due: u64,
    pub text: String,
}

impl Job {
    /// Creates a job due at that time, in microseconds since 1970.
    pub fn at(due: u64) -> Self {
        Self {
            due,
            text: format!("{due:0DIGITS$}{:.<1$}", "", BYTES - DIGITS),
        }
    }

    /// Creates a job due after this delay.
    pub fn after(delay: Duration) -> Self {
        Self::at(now() + micros(delay))
    }

    pub fn when(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.due)
    }

    /// Returns the time since the due time in the text, in microseconds; negative if early. `None`
    /// if the text is not that of a job.
    pub fn lateness(text: &str) -> Option<i64> {
        let due: u64 = text.get(..DIGITS)?.parse().ok()?;
        Some(now().cast_signed() - due.cast_signed())
    }
}

/// The system clock, in microseconds since 1970.
pub fn now() -> u64 {
    micros(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default(),
    )
}

/// In whole microseconds.
pub fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_hundred_bytes_and_contains_the_due_time() {
        let hour = Duration::from_hours(1);
        let job = Job::after(hour);
        assert_eq!(job.text.len(), BYTES);
        let early = Job::lateness(&job.text).expect("it is a job's");
        assert!(early < 0 && early >= -micros(hour).cast_signed(), "{early}");
        assert_eq!(Job::lateness("no job"), None);
    }
}

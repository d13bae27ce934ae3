//! The failed attempts of a job, as the text that stores keep with it.
//!
//! Stores do not read the text. It consists of one entry per failed attempt, the oldest first:
//!
//! ```text
//! TIME ATTEMPT LENGTH
//! ERROR
//! ```
//!
//! `TIME` is in microseconds since 1970 by the store's clock, `ATTEMPT` is the number of the attempt, and
//! `LENGTH` is the length of `ERROR` in bytes. Each of the two lines ends with a line feed, and `ERROR` may contain
//! further ones.
//!
//! # Invariants
//! 1. A text has at most [`MOST_FAILURES`] entries, and no NUL character.
//! 2. A text that is not in this format counts as empty. The next failure replaces it.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use crate::error::storable;
use crate::store::offset::Offset;
use crate::store::time::StoreTime;

/// Number of failed attempts that a job keeps: the last ones.
pub const MOST_FAILURES: usize = 10;

/// Number of the attempt in an entry that is none.
pub(crate) const NO_ATTEMPT: u32 = 0;

/// A failed attempt of a job.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// When it failed, by the store's clock as its process knew it.
    pub at: StoreTime,
    /// The number of the attempt, from 1. Attempts whose process died have no entry, and a redriven dead letter
    /// counts from 1 again. Zero: a process could not read the job, and has given it back.
    pub attempt: u32,
    /// The error of the handler, the reason of a [`retry`](crate::Claimed::retry), or the reason why there was no
    /// result. Of a longer text, [`LONGEST_ERROR`](crate::LONGEST_ERROR) bytes are kept, and it ends with ` [cut]`.
    pub error: String,
}

/// Omits the error, which may be confidential.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("at", &self.at)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Returns the failures of a text, the oldest first.
pub(crate) fn read(text: Option<&str>) -> Vec<Failure> {
    let entries = text.and_then(entries).unwrap_or_default().into_iter();
    let failures = entries.map(|entry| Failure {
        at: entry.at,
        attempt: entry.attempt,
        error: entry.error.to_owned(),
    });
    failures.collect()
}

struct Entry<'a> {
    at: StoreTime,
    attempt: u32,
    error: &'a str,
    /// All of the entry.
    whole: &'a str,
}

/// Returns the entries that are kept, or `None` if the text cannot be read.
fn entries(mut text: &str) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    while !text.is_empty() {
        let (entry, rest) = first(text)?;
        entries.push(entry);
        text = rest;
    }
    Some(entries.split_off(entries.len().saturating_sub(MOST_FAILURES)))
}

/// Splits off the first entry.
fn first(text: &str) -> Option<(Entry<'_>, &str)> {
    let (head, body) = text.split_once('\n')?;
    let mut numbers = head.split(' ');
    let at = numbers.next()?.parse().ok()?;
    let attempt = numbers.next()?.parse().ok()?;
    let length = numbers.next()?.parse().ok()?;
    let (error, rest) = body.split_at_checked(length)?;
    let rest = rest
        .strip_prefix('\n')
        .filter(|_| numbers.next().is_none())?;
    let entry = Entry {
        at: StoreTime::from_micros(at),
        attempt,
        error,
        whole: &text[..text.len() - rest.len()],
    };
    Some((entry, rest))
}

/// A failed attempt that is not in the text of its job yet, because only the pump knows the store's time.
pub(crate) struct Failed {
    before: Option<Arc<str>>,
    /// When it failed, by the local clock.
    at: Instant,
    /// The due time of its job, by the store's clock.
    due: StoreTime,
    pub(crate) attempt: u32,
    error: String,
    /// Empty until it is written.
    text: String,
}

impl Failed {
    /// Takes the job's text before this attempt. `error` may be any text.
    pub(crate) fn new(
        before: Option<Arc<str>>,
        at: Instant,
        due: StoreTime,
        attempt: u32,
        error: String,
    ) -> Self {
        Self {
            before,
            at,
            due,
            attempt,
            error: storable(error),
            text: String::new(),
        }
    }

    pub(crate) fn error(&self) -> &str {
        &self.error
    }

    /// Returns the job's text with this failure, once it is written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the time of the failure by the store's clock.
    pub(crate) fn time(&self, offset: Option<Offset>) -> StoreTime {
        offset.map_or(self.due, |offset| offset.store_time(self.at))
    }

    /// Returns since when the job has been unreadable, if nothing else has happened to it.
    pub(crate) fn unread_since(&self) -> Option<StoreTime> {
        let before = self.before.as_deref().and_then(entries)?;
        let last = before.last()?;
        (last.attempt == NO_ATTEMPT).then_some(last.at)
    }

    /// Writes the text. A command that is sent again keeps it.
    pub(crate) fn write(&mut self, offset: Option<Offset>) {
        if !self.text.is_empty() {
            return;
        }
        let at = self.time(offset);
        let before = self.before.take();
        let before = before.as_deref().and_then(entries).unwrap_or_default();
        let kept = &before[before.len().saturating_sub(MOST_FAILURES - 1)..];
        self.text.extend(kept.iter().map(|entry| entry.whole));
        let (at, error) = (at.as_micros(), &self.error);
        // Writing to a string does not fail.
        let written = write!(
            self.text,
            "{at} {} {}\n{error}\n",
            self.attempt,
            error.len()
        );
        debug_assert!(written.is_ok());
    }
}

/// Omits the texts.
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed")
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;
    use crate::error::LONGEST_ERROR;

    fn time(micros: i64) -> StoreTime {
        StoreTime::from_micros(micros)
    }

    /// The text after another failure.
    fn after(before: Option<&str>, attempt: u32, error: &str) -> String {
        let now = Instant::now();
        let offset = Some(Offset::new(now, time(i64::from(attempt) * 1_000)));
        let (before, error) = (before.map(Arc::from), error.to_owned());
        let mut failed = Failed::new(before, now, time(0), attempt, error);
        failed.write(offset);
        let text = failed.text().to_owned();
        failed.write(offset);
        assert_eq!(failed.text(), text, "a command that is sent again");
        text
    }

    fn errors(text: &str) -> Vec<(u32, String)> {
        let read = read(Some(text)).into_iter();
        read.map(|it| (it.attempt, it.error)).collect()
    }

    #[test]
    fn the_last_ten_of_twelve_failures_are_kept_in_order() {
        let mut text = String::new();
        for attempt in 1..=12 {
            text = after(Some(&text), attempt, &format!("error\n{attempt}\n"));
        }
        let read = read(Some(&text));
        assert_eq!(read.len(), MOST_FAILURES);
        assert_eq!(text.matches("error").count(), MOST_FAILURES);
        for (failure, attempt) in read.iter().zip(3..) {
            assert_eq!(failure.attempt, attempt);
            assert_eq!(failure.at, time(i64::from(attempt) * 1_000));
            assert_eq!(failure.error, format!("error\n{attempt}\n"));
        }
    }

    #[test]
    fn any_error_text_is_read_as_it_was_written() {
        for error in ["", "\n", "1 2 3\n", "ж\r\n\"\\", "-1 1 0\n\n"] {
            let text = after(Some(&after(None, 1, error)), 2, error);
            let expected = [1, 2].map(|attempt| (attempt, error.to_owned()));
            assert_eq!(errors(&text), expected);
        }
    }

    #[test]
    fn a_long_error_is_cut_between_characters_and_says_so() {
        // The cut would be within the two bytes of a character, or next to it.
        for before in LONGEST_ERROR - 12..LONGEST_ERROR {
            let error = "x".repeat(before) + &"ж".repeat(20);
            let kept = &errors(&after(None, 1, &error))[0].1;
            assert!(kept.len() <= LONGEST_ERROR && kept.len() > LONGEST_ERROR - 8);
            let start = kept.strip_suffix(" [cut]").expect("it says so");
            assert!(error.starts_with(start));
        }
        let whole = "x".repeat(LONGEST_ERROR);
        assert_eq!(errors(&after(None, 1, &whole))[0].1, whole);
    }

    #[test]
    fn a_text_has_no_nul_character() {
        assert_eq!(errors(&after(None, 1, "a\0b")), [(1, "a b".to_owned())]);
    }

    #[test]
    fn an_unreadable_text_counts_as_empty_and_is_replaced_by_the_next_failure() {
        let good = after(None, 1, "жx");
        let mut bad: Vec<String> = [
            "x",
            "\n",
            " \n",
            "1 1\n",
            "1 1 1 1\nx\n",
            "1 1 1\nx",
            "1 1 9\nx\n",
            "1 1 -1\nx\n",
            "1 -1 1\nx\n",
            "1 1 1\nж\n",
            "99999999999999999999 1 1\nx\n",
            "1 1 18446744073709551615\nx\n",
        ]
        .map(str::to_owned)
        .to_vec();
        let cuts = (1..good.len()).filter(|at| good.is_char_boundary(*at));
        bad.extend(cuts.map(|at| good[..at].to_owned()));
        bad.push(format!("{good}x"));
        for bad in bad {
            assert_eq!(read(Some(&bad)), [], "{bad:?}");
            assert_eq!(
                errors(&after(Some(&bad), 2, "next")),
                [(2, "next".to_owned())]
            );
        }
        assert_eq!(read(None), []);
    }

    #[test]
    fn more_entries_than_are_kept_are_read_as_the_last_ones() {
        let text: String = (1..=20).map(|attempt| after(None, attempt, "e")).collect();
        let read: Vec<u32> = read(Some(&text)).iter().map(|it| it.attempt).collect();
        assert!(read.into_iter().eq(11..=20));
    }

    #[test]
    fn the_time_is_the_stores_at_the_moment_of_the_failure() {
        let now = Instant::now();
        let second = std::time::Duration::from_secs(1);
        let offset = Offset::new(now + second, time(5_000_000));
        let mut failed = Failed::new(None, now, time(7), 1, String::new());
        failed.write(Some(offset));
        assert_eq!(read(Some(failed.text()))[0].at, time(4_000_000));
        let mut failed = Failed::new(None, now, time(7), 1, String::new());
        failed.write(None);
        assert_eq!(
            read(Some(failed.text()))[0].at,
            time(7),
            "no better time is known"
        );
    }

    #[test]
    fn debug_omits_the_texts() {
        let mut failed = Failed::new(
            Some("before".into()),
            Instant::now(),
            time(0),
            3,
            "secret".into(),
        );
        failed.write(None);
        let failure = Failure {
            at: time(0),
            attempt: 3,
            error: "secret".into(),
        };
        for shown in [format!("{failed:?}"), format!("{failure:?}")] {
            assert!(shown.contains("attempt: 3"), "{shown}");
            assert!(
                !shown.contains("secret") && !shown.contains("before"),
                "{shown}"
            );
        }
    }
}

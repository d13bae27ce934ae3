//! Times as numbers: what a heap counts, from a point that its owner picked.

use std::time::{Duration, Instant};

use crate::NEVER;

/// A point of time, and the nanoseconds since.
///
/// The point lies 146 years before its owner was made, so that what was due before that, as a
/// deadline restored at a start, has its time and its place among others. Where an `Instant` cannot
/// be so early (some systems begin with their own start), the point is as early as one can be.
///
/// Nothing is rounded: an `Instant` is a number of nanoseconds. What lies before the point is the
/// point; what lies too far behind it for 64 bits (438 years after the making) is [`NEVER`].
#[derive(Clone, Copy, Debug)]
pub struct Epoch(Instant);

impl Epoch {
    /// The epoch of an owner that is made at `start`.
    pub fn new(start: Instant) -> Self {
        Self(earlier(start, |instant, by| instant.checked_sub(by)))
    }

    /// `when` as a number.
    #[inline]
    pub fn nanos(self, when: Instant) -> u64 {
        nanos(when.saturating_duration_since(self.0))
    }

    /// The number of the point `delay` after `now`.
    #[inline]
    pub fn after(self, now: Instant, delay: Duration) -> u64 {
        self.later(self.nanos(now), delay)
    }

    /// As [`after`](Self::after), of a point that is a number already.
    #[inline]
    pub fn later(self, now: u64, delay: Duration) -> u64 {
        let due = now.saturating_add(nanos(delay));
        // Far below what any `Instant` can express, so the check is not made for ordinary times.
        if due > FAR && self.instant(due).is_none() {
            return NEVER;
        }
        due
    }

    /// The point that `due` stands for; `None` for [`NEVER`], and for what an `Instant` cannot
    /// express.
    #[inline]
    pub fn instant(self, due: u64) -> Option<Instant> {
        if due == NEVER {
            return None;
        }
        self.0.checked_add(Duration::from_nanos(due))
    }

    /// As [`instant`](Self::instant), of what was due by a time that a clock has shown: an `Instant`
    /// can express it.
    #[inline]
    pub(crate) fn reached(self, due: u64) -> Instant {
        self.instant(due).unwrap_or(self.0)
    }
}

/// How long before its owner's making an epoch begins, in nanoseconds: a quarter of what 64 bits
/// can count.
const PAST: u64 = 1 << 62;

/// A hundred years after an owner's making, if its epoch is as early as it is meant to be.
const FAR: u64 = PAST + 100 * 365 * 86_400 * 1_000_000_000;

/// As early as can be, but no more than [`PAST`] before `start`: by halves, to the nanosecond.
fn earlier<I: Copy>(start: I, minus: impl Fn(I, Duration) -> Option<I>) -> I {
    if let Some(point) = minus(start, Duration::from_nanos(PAST)) {
        return point;
    }
    let steps = (0..PAST.ilog2()).rev().map(|bit| 1 << bit);
    steps.fold(start, |point, step| {
        minus(point, Duration::from_nanos(step)).unwrap_or(point)
    })
}

/// `NEVER` if it does not fit.
#[inline]
fn nanos(span: Duration) -> u64 {
    // Not `as_nanos`, whose 128-bit product costs more than the rest of a push.
    let seconds = span.as_secs().checked_mul(1_000_000_000);
    seconds
        .and_then(|nanos| nanos.checked_add(u64::from(span.subsec_nanos())))
        .unwrap_or(NEVER)
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    /// Points of a system that begins its time with its own start, in nanoseconds since.
    #[expect(clippy::cast_possible_truncation, reason = "spans here are below 2^63")]
    fn minus(point: u64, by: Duration) -> Option<u64> {
        point.checked_sub(by.as_nanos() as u64)
    }

    /// The docs of both queues give these years.
    #[test]
    fn the_years_in_the_docs_are_those_of_the_epoch() {
        const YEAR: u64 = 365 * 86_400 * 1_000_000_000 + 6 * 3_600 * 1_000_000_000;
        let (before, after) = (PAST / YEAR, (NEVER - PAST) / YEAR);
        for docs in [include_str!("queue.rs"), include_str!("epoch.rs")] {
            assert!(docs.contains(&format!("{before} years")));
            assert!(docs.contains(&format!("{after} years")));
        }
    }

    #[test]
    fn the_epoch_is_the_earliest_representable_instant() {
        for uptime in [0, 1, 2, 3, 1_000, 86_400_000_000_123, PAST - 1, PAST] {
            assert_eq!(earlier(uptime, minus), 0);
        }
        assert_eq!(earlier(PAST + 7, minus), 7);
    }
}

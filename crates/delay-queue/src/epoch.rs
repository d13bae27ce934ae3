//! Times as numbers, as used by a heap, from a start that its owner chooses.

use std::time::{Duration, Instant};

use crate::NEVER;

/// The point in time from which a queue counts nanoseconds.
///
/// It is 146 years before the creation of its owner, so that earlier due times (a deadline restored
/// after a restart) keep their value and their order. If an `Instant` cannot express that time (on
/// some systems time begins at boot), the epoch is as early as possible.
///
/// Times are not rounded: an `Instant` is a number of nanoseconds. A time before the epoch becomes
/// the epoch. A time that does not fit 64 bits (438 years after the creation) becomes [`NEVER`].
#[derive(Clone, Copy, Debug)]
pub struct Epoch(Instant);

impl Epoch {
    /// Creates the epoch of an owner that is created at `start`.
    pub fn new(start: Instant) -> Self {
        Self(earlier(start, |instant, by| instant.checked_sub(by)))
    }

    /// Converts `when` to a number.
    #[inline]
    pub fn nanos(self, when: Instant) -> u64 {
        nanos(when.saturating_duration_since(self.0))
    }

    /// Returns the number of the time `delay` after `now`.
    #[inline]
    pub fn after(self, now: Instant, delay: Duration) -> u64 {
        self.later(self.nanos(now), delay)
    }

    /// Like [`after`](Self::after), for a time that is already a number.
    #[inline]
    pub fn later(self, now: u64, delay: Duration) -> u64 {
        let due = now.saturating_add(nanos(delay));
        // The check is skipped for ordinary times: `FAR` is well within the range of `Instant`.
        if due > FAR && self.instant(due).is_none() {
            return NEVER;
        }
        due
    }

    /// Returns the time that `due` stands for; `None` for [`NEVER`] and for times out of the range
    /// of `Instant`.
    #[inline]
    pub fn instant(self, due: u64) -> Option<Instant> {
        if due == NEVER {
            return None;
        }
        self.0.checked_add(Duration::from_nanos(due))
    }

    /// Like [`instant`](Self::instant), for times that a clock has reached and that an `Instant`
    /// can therefore express.
    #[inline]
    pub(crate) fn reached(self, due: u64) -> Instant {
        self.instant(due).unwrap_or(self.0)
    }
}

/// How long before its owner's creation an epoch begins, in nanoseconds: a quarter of the range of
/// 64 bits.
const PAST: u64 = 1 << 62;

/// A hundred years after the owner's creation, if the epoch is as early as intended.
const FAR: u64 = PAST + 100 * 365 * 86_400 * 1_000_000_000;

/// Returns the earliest time that can be expressed, at most [`PAST`] before `start`. Finds it by
/// bisection, to the nanosecond.
fn earlier<I: Copy>(start: I, minus: impl Fn(I, Duration) -> Option<I>) -> I {
    if let Some(point) = minus(start, Duration::from_nanos(PAST)) {
        return point;
    }
    let steps = (0..PAST.ilog2()).rev().map(|bit| 1 << bit);
    steps.fold(start, |point, step| {
        minus(point, Duration::from_nanos(step)).unwrap_or(point)
    })
}

/// Returns `NEVER` if the duration does not fit.
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

    /// Times of a system whose clock starts at boot, in nanoseconds since.
    #[expect(clippy::cast_possible_truncation, reason = "spans here are below 2^63")]
    fn minus(point: u64, by: Duration) -> Option<u64> {
        point.checked_sub(by.as_nanos() as u64)
    }

    /// The documentation of both queues mentions these years.
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

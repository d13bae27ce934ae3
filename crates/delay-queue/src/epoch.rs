//! Times as numbers: what a heap counts, from a point that its owner picked.

use std::time::{Duration, Instant};

use crate::NEVER;

/// A point of time, and the nanoseconds since.
///
/// Nothing is rounded: an `Instant` is told in nanoseconds. What lies before the point is the
/// point; what lies too far behind it for 64 bits (584 years) is [`NEVER`].
#[derive(Clone, Copy, Debug)]
pub struct Epoch(Instant);

impl Epoch {
    /// An epoch that begins at `start`.
    pub fn new(start: Instant) -> Self {
        Self(start)
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
}

/// A hundred years.
const FAR: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// `NEVER` if it does not fit.
#[inline]
fn nanos(span: Duration) -> u64 {
    // Not `as_nanos`, whose 128-bit product costs more than the rest of a push.
    let seconds = span.as_secs().checked_mul(1_000_000_000);
    seconds
        .and_then(|nanos| nanos.checked_add(u64::from(span.subsec_nanos())))
        .unwrap_or(NEVER)
}

//! Limits of a queue, in force for all processes together.
//!
//! A limit is kept by the store, which checks it in the transaction of each claim. The process does not: its
//! own limits are [`Builder::rate`](crate::Builder::rate) and the concurrency of a worker.

use std::time::Duration;

use crate::store::time::StoreTime;

/// A limit of a queue, for all processes: see [`DurableQueue::limit`](crate::DurableQueue::limit).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Maximum number of jobs of each key that are held at a time. One means
    /// [serial keys](crate::DurableQueue::serialize_keys), which also keep the order of a key's jobs.
    PerKey {
        /// Zero counts as one.
        most: u32,
    },
    /// Maximum number of jobs of this kind that are held at a time.
    PerKind {
        /// See [`NewJob::kind`](crate::NewJob::kind).
        kind: String,
        /// Zero counts as one.
        most: u32,
    },
    /// Maximum rate at which jobs of this kind are claimed.
    RateOfKind {
        /// See [`NewJob::kind`](crate::NewJob::kind).
        kind: String,
        /// The rate.
        rate: StartRate,
    },
}

impl Limit {
    /// At most `most` jobs of each key are held at a time.
    pub fn per_key(most: u32) -> Self {
        let most = most.max(1);
        Self::PerKey { most }
    }

    /// At most `most` jobs of this kind are held at a time.
    pub fn per_kind(kind: impl Into<String>, most: u32) -> Self {
        let (kind, most) = (kind.into(), most.max(1));
        Self::PerKind { kind, most }
    }

    /// On average, at most `jobs` jobs of this kind start per `per`: see [`StartRate`].
    pub fn rate_of_kind(kind: impl Into<String>, jobs: u32, per: Duration) -> Self {
        let (kind, rate) = (kind.into(), StartRate::new(jobs, per));
        Self::RateOfKind { kind, rate }
    }
}

/// A token bucket: it holds up to `jobs` tokens, gets one every `per / jobs`, and each job takes one. So at
/// most `2 * jobs` jobs start within any `per`, and on average no more than `jobs`.
///
/// Stores keep one time for each rate: the time at which the bucket is full again (the generic cell rate
/// algorithm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartRate {
    jobs: u32,
    per: Duration,
}

impl StartRate {
    /// Creates a rate. Zero jobs count as one. A token takes at least a microsecond; stores round its time up
    /// to microseconds.
    pub fn new(jobs: u32, per: Duration) -> Self {
        let jobs = jobs.max(1);
        // Stores keep microseconds, as signed numbers.
        let micros = i64::try_from(per.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX);
        let per = Duration::from_micros(micros.max(1).unsigned_abs());
        Self { jobs, per }
    }

    /// Returns the number of tokens that the bucket can hold.
    pub fn jobs(&self) -> u32 {
        self.jobs
    }

    /// Returns the time in which an empty bucket is filled.
    pub fn per(&self) -> Duration {
        self.per
    }

    /// The time of a token, rounded up.
    fn interval(&self) -> Duration {
        let micros = self.per.as_micros().div_ceil(u128::from(self.jobs));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Returns the time from which the bucket has a token, if it is full at `full`. For stores.
    pub fn next(&self, full: StoreTime) -> StoreTime {
        full.before(self.interval().saturating_mul(self.jobs - 1))
    }

    /// Returns the number of tokens at `now`, if the bucket is full at `full`. For stores.
    pub fn tokens(&self, full: StoreTime, now: StoreTime) -> u32 {
        let next = self.next(full.max(now));
        if next > now {
            return 0;
        }
        let others = now.since(next).as_micros() / self.interval().as_micros();
        u32::try_from(others).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Returns when the bucket is full after a token was taken at `now`. For stores.
    pub fn take(&self, full: StoreTime, now: StoreTime) -> StoreTime {
        full.max(now).after(self.interval())
    }

    /// Returns when the bucket is full after its rate was changed to this one. It contains no more tokens than
    /// before, and is not in debt. For stores.
    pub fn changed(&self, full: StoreTime, now: StoreTime) -> StoreTime {
        full.min(now.after(self.interval().saturating_mul(self.jobs)))
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: StoreTime = StoreTime::from_micros(1_000_000_000);
    const LONG_AGO: StoreTime = StoreTime::from_micros(i64::MIN);

    #[test]
    fn a_full_bucket_has_all_its_tokens_and_gets_one_per_interval() {
        let rate = StartRate::new(3, SECOND);
        let mut full = LONG_AGO;
        assert_eq!(rate.tokens(full, NOW), 3);
        for left in (0..3).rev() {
            full = rate.take(full, NOW);
            assert_eq!(rate.tokens(full, NOW), left);
        }
        let next = rate.next(full);
        assert_eq!(next, NOW.after(Duration::from_micros(333_334)));
        assert_eq!(rate.tokens(full, next.before(Duration::from_micros(1))), 0);
        assert_eq!(rate.tokens(full, next), 1);
        assert_eq!(rate.tokens(full, NOW.after(SECOND * 2)), 3);
    }

    #[test]
    fn extreme_rates_are_finite() {
        let fast = StartRate::new(u32::MAX, Duration::ZERO);
        assert_eq!(fast.tokens(LONG_AGO, NOW), u32::MAX);
        let slow = StartRate::new(0, Duration::MAX);
        assert_eq!(slow.tokens(LONG_AGO, NOW), 1);
        let full = slow.take(LONG_AGO, NOW);
        assert_eq!(slow.tokens(full, NOW), 0);
    }

    #[test]
    fn a_changed_rate_adds_no_token_and_leaves_no_debt() {
        let (slow, fast) = (StartRate::new(1, SECOND * 3_600), StartRate::new(2, SECOND));
        let full = fast.changed(slow.take(LONG_AGO, NOW), NOW);
        assert_eq!(fast.tokens(full, NOW), 0);
        assert_eq!(fast.next(full), NOW.after(SECOND / 2));
        let full = fast.take(LONG_AGO, NOW);
        assert_eq!(fast.tokens(fast.changed(full, NOW), NOW), 1);
    }
}

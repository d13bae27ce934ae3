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
    /// The rule of the queue's groups.
    Groups(Groups),
    /// Maximum number of jobs of this kind that are held at a time.
    PerKind {
        /// See [`NewJob::kind`](crate::NewJob::kind).
        kind: String,
        /// Zero stops the kind.
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
    /// One job of each group runs at a time, in order: see [`Groups::Ordered`].
    pub const fn ordered() -> Self {
        Self::Groups(Groups::Ordered)
    }

    /// At most `most` jobs of each group run at a time: see [`Groups::Concurrency`]. Zero counts as one.
    pub fn per_group(most: u32) -> Self {
        Self::Groups(Groups::Concurrency(most.max(1)))
    }

    /// The groups take turns: see [`Groups::Fair`].
    pub const fn fair() -> Self {
        Self::Groups(Groups::Fair)
    }

    /// At most `most` jobs of this kind are held at a time. Zero stops the kind: its jobs wait, at no cost, until the limit is
    /// changed or removed, for example while a service that they need is down.
    #[doc(alias = "pause")]
    pub fn per_kind(kind: impl Into<String>, most: u32) -> Self {
        let kind = kind.into();
        Self::PerKind { kind, most }
    }

    /// On average, at most `jobs` jobs of this kind start per `per`: see [`StartRate`].
    pub fn rate_of_kind(kind: impl Into<String>, jobs: u32, per: Duration) -> Self {
        let (kind, rate) = (kind.into(), StartRate::new(jobs, per));
        Self::RateOfKind { kind, rate }
    }
}

/// What the groups of a queue mean, for all processes. A job's group is a text of the application, such as a tenant or an
/// account: see [`DurableQueue::group`](crate::DurableQueue::group). Without a rule, groups have no effect.
///
/// A queue has one rule, for all its groups and all processes. Set it before the first push, at each start: the same rule again
/// changes nothing, and another one replaces it, so during a deployment all processes should set the same. Use a queue for each
/// rule.
///
/// A group's jobs that its rule keeps back *wait*: they hide no others, and cost nothing while they wait. Urgent ones go
/// first, then those with the earliest due time, then those that were pushed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fifo")]
#[doc(alias = "partition")]
pub enum Groups {
    /// One job of each group is held at a time, in order: urgent ones first, then by due time, then by push. A failed job is not
    /// overtaken, nor one whose holder has died: the others wait until it is done, dead or cancelled, however long its
    /// back-off is. A repeating job is overtaken between its runs. A job that is reset or merged is put in line again.
    Ordered,
    /// At most this many jobs of each group are held at a time. Zero counts as one. There is no order: a failed job is
    /// overtaken while it waits for its next attempt.
    Concurrency(u32),
    /// The groups take turns: of each group, one job is available at a time. Whenever it is claimed, the next one becomes
    /// available, behind those that are available already. So a group's thousands of jobs do not precede another's
    /// single one. Any number of a group's jobs may run at the same time; what takes turns are starts, not run times.
    Fair,
}

impl Groups {
    /// Returns how many jobs of a group may have a seat. For stores.
    pub fn seats(self) -> u32 {
        match self {
            Self::Ordered | Self::Fair => 1,
            Self::Concurrency(most) => most.max(1),
        }
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

//! Retry policies of jobs and kinds, and their text in the store.
//!
//! # Invariants
//! 1. Each version reads the texts of all others: unknown words and unreadable values have no effect.

use std::fmt::Write;
use std::time::Duration;

/// Policy for failed and slow attempts of a job, and for its end. Unset options are those of the job's kind
/// ([`KindOptions::policy`](crate::KindOptions::policy)), then those of the queue
/// ([`Builder`](crate::Builder)).
///
/// A job gets a policy from the [handle](crate::DurableQueue::with_policy) that pushes it. The store keeps it as a
/// short text, through retries, releases, burials and redrives. A merge replaces it together with the payload, but not
/// the number of attempts: a job that has had as many as its new policy allows is buried.
///
/// ```
/// use std::time::Duration;
/// use durable_queue::{DurableQueue, JobPolicy, When};
/// use durable_queue_sqlite::SqliteStore;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mails = DurableQueue::new("mails", SqliteStore::open(":memory:")?);
/// let soon = Duration::from_secs(1);
/// let policy = JobPolicy::new().max_attempts(3).back_off(soon, soon * 60).time_limit(soon * 30);
/// mails.with_policy(policy).push("a password".to_owned(), When::NOW)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "it has no effect until a handle or a worker gets it"]
pub struct JobPolicy {
    pub(crate) max_attempts: Option<u32>,
    /// The first delay and the longest.
    pub(crate) back_off: Option<(Duration, Duration)>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) keep_done: Option<Duration>,
}

impl JobPolicy {
    /// Creates a policy with no option set.
    pub const fn new() -> Self {
        Self {
            max_attempts: None,
            back_off: None,
            time_limit: None,
            keep_done: None,
        }
    }

    /// Sets the number of attempts before the job is buried. Minimum: one.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts.max(1));
        self
    }

    /// Sets how long the job waits after a failed attempt: `first`, doubled by each further failure up to `longest`,
    /// plus a random part of up to a quarter.
    pub fn back_off(mut self, first: Duration, longest: Duration) -> Self {
        self.back_off = Some((first, longest));
        self
    }

    /// Sets the maximum duration of an attempt, counted from the call of the handler, or for [`take`] from the hand-out.
    ///
    /// When it is over, the attempt has failed: the job is retried or buried, with an error that names the limit, and
    /// the handler has lost its lease. [`is_lost`](crate::Claimed::is_lost) returns true, [`lost`](crate::Claimed::lost)
    /// completes, and each settle is stale. The future of an async handler is dropped. A blocking handler goes on until
    /// it returns, perhaps while the next attempt runs. [Extensions](crate::Claimed::extend) of the lease do not move
    /// the limit. [`Stats::timed_out`](crate::Stats::timed_out) counts such attempts.
    ///
    /// It replaces the queue's [`attempt_timeout`](crate::Builder::attempt_timeout), which only lets the lease expire.
    ///
    /// [`take`]: crate::DurableQueue::take
    #[doc(alias = "timeout")]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Sets how long the job is kept when it is done, instead of the time that the queue keeps
    /// [its jobs](crate::Builder::keep_done). With [`Merge::KeepDone`](crate::Merge::KeepDone), pushes of its key create no
    /// job meanwhile: at most one mail per user and hour, for example.
    ///
    /// ```
    /// use std::time::Duration;
    /// use durable_queue::{DurableQueue, JobPolicy, Merge, Put, When};
    /// use durable_queue_sqlite::SqliteStore;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mails = DurableQueue::new("mails", SqliteStore::open(":memory:")?);
    /// let hourly = mails.with_policy(JobPolicy::new().keep_done(Duration::from_secs(3_600)));
    /// let push = || hourly.push_keyed("ann", "there is news".to_owned(), When::NOW, Merge::KeepDone);
    /// assert!(matches!(push()?, Put::New(_)));
    /// mails.take()?.ack()?;
    /// assert!(matches!(push()?, Put::Kept(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep_done(mut self, span: Duration) -> Self {
        self.keep_done = Some(span);
        self
    }

    /// Unset options are taken from `others`.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            max_attempts: self.max_attempts.or(others.max_attempts),
            back_off: self.back_off.or(others.back_off),
            time_limit: self.time_limit.or(others.time_limit),
            keep_done: self.keep_done.or(others.keep_done),
        }
    }

    /// The words `attempts=5`, `back_off=1000000/60000000`, `time_limit=30000000` and `keep=3600000000`, of the options that are set,
    /// separated by spaces. Durations are in microseconds.
    pub(crate) fn to_text(self) -> String {
        let mut text = String::new();
        let mut word = |word: std::fmt::Arguments<'_>| {
            let space = if text.is_empty() { "" } else { " " };
            write!(text, "{space}{word}").expect("a string takes any text");
        };
        if let Some(attempts) = self.max_attempts {
            word(format_args!("{ATTEMPTS}={attempts}"));
        }
        if let Some((first, longest)) = self.back_off {
            let (first, longest) = (micros(first), micros(longest));
            word(format_args!("{BACK_OFF}={first}/{longest}"));
        }
        if let Some(limit) = self.time_limit {
            word(format_args!("{TIME_LIMIT}={}", micros(limit)));
        }
        if let Some(span) = self.keep_done {
            word(format_args!("{KEEP_DONE}={}", micros(span)));
        }
        text
    }

    pub(crate) fn of_text(text: &str) -> Self {
        let mut policy = Self::new();
        for (name, value) in text.split(' ').filter_map(|word| word.split_once('=')) {
            match name {
                ATTEMPTS => {
                    let attempts = value.parse().ok();
                    policy.max_attempts = attempts.filter(|attempts| *attempts > 0);
                }
                BACK_OFF => {
                    let parts = value.split_once('/');
                    policy.back_off = parts
                        .and_then(|(first, longest)| Some((duration(first)?, duration(longest)?)));
                }
                TIME_LIMIT => policy.time_limit = duration(value),
                KEEP_DONE => policy.keep_done = duration(value),
                _ => {} // Of a later version.
            }
        }
        policy
    }
}

const ATTEMPTS: &str = "attempts";
const BACK_OFF: &str = "back_off";
const TIME_LIMIT: &str = "time_limit";
const KEEP_DONE: &str = "keep";

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn duration(micros: &str) -> Option<Duration> {
    micros.parse().ok().map(Duration::from_micros)
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_policy_is_read_as_it_was_written() {
        let all = JobPolicy::new()
            .max_attempts(7)
            .back_off(SECOND, SECOND * 60)
            .time_limit(SECOND / 2)
            .keep_done(SECOND);
        let text = "attempts=7 back_off=1000000/60000000 time_limit=500000 keep=1000000";
        assert_eq!(all.to_text(), text);
        for policy in [
            all,
            JobPolicy::new(),
            JobPolicy::new().time_limit(Duration::ZERO),
            JobPolicy::new().max_attempts(u32::MAX),
        ] {
            assert_eq!(JobPolicy::of_text(&policy.to_text()), policy);
        }
        let longest = JobPolicy::new().time_limit(Duration::MAX).to_text();
        let limit = JobPolicy::of_text(&longest).time_limit;
        assert_eq!(limit, Some(Duration::from_micros(u64::MAX)));
    }

    #[test]
    fn unknown_words_and_unreadable_values_of_a_policy_have_no_effect() {
        let text =
            " later=1  attempts=many time_limit= back_off=5 = attempts time_limit=-1 \u{1f41c}=2 ";
        assert_eq!(JobPolicy::of_text(text), JobPolicy::new());
        let text = "later=1/2 attempts=3 back_off=1/x time_limit=2000000";
        let read = JobPolicy::new().max_attempts(3).time_limit(SECOND * 2);
        assert_eq!(JobPolicy::of_text(text), read);
        assert_eq!(JobPolicy::of_text("attempts=0").max_attempts, None);
    }

    #[test]
    fn unset_options_are_those_of_the_next_level() {
        let job = JobPolicy::new().max_attempts(1);
        let kind = JobPolicy::new().max_attempts(2).time_limit(SECOND);
        let both = JobPolicy::new().max_attempts(1).time_limit(SECOND);
        assert_eq!(job.or(kind), both);
    }
}

//! Retrying of failed tasks: back-off and number of attempts.

use std::any::type_name;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use crate::body::{AfterPanic, Body};
use crate::plan::{Plan, nanos};
use crate::unstarted::UnstartedTask;

const DEFAULT_MAX_DELAY: Duration = Duration::from_secs(60);

/// Retry policy: back-off delays and the maximum number of attempts. See
/// [`ScheduledPool::spawn_retrying`](crate::ScheduledPool::spawn_retrying).
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
/// use scheduled_pool::Retry;
///
/// // After about 0.1, 0.2, 0.4 and 0.8 seconds; then the error is final.
/// let policy = Retry::exponential(Duration::from_millis(100))
///     .max_attempts(NonZeroU32::new(5).expect("it is not 0"));
/// # let _ = policy;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "backoff")]
#[doc(alias = "back_off")]
#[doc(alias = "ExponentialBackoff")]
#[must_use = "a `Retry` does nothing until it is passed to `spawn_retrying`"]
pub struct Retry {
    first: Duration,
    max_delay: Duration,
    max_attempts: Option<NonZeroU32>,
    jitter: bool,
}

impl Retry {
    /// Exponential back-off: waits for `first` after the first failure and doubles the delay after each
    /// further one, up to a minute, with jitter, without a limit of attempts.
    pub fn exponential(first: Duration) -> Self {
        Self {
            first,
            max_delay: DEFAULT_MAX_DELAY,
            max_attempts: None,
            jitter: true,
        }
    }

    /// Sets the longest delay. The default is 60 seconds.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Gives up after `attempts` attempts, including the first one. The default is no limit.
    pub fn max_attempts(mut self, attempts: NonZeroU32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Enables or disables jitter, which keeps tasks that failed together from being retried together. With
    /// jitter, the default, each delay is chosen at random between half of it and all of it.
    pub fn jitter(mut self, jitter: bool) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the delay after this number of failures (at least 1); `None` after the last attempt.
    fn delay(&self, failures: u32, random: u64) -> Option<Duration> {
        if self.max_attempts.is_some_and(|max| failures >= max.get()) {
            return None;
        }
        let doubled = 2_u32.saturating_pow(failures - 1);
        let delay = self.first.saturating_mul(doubled).min(self.max_delay);
        if !self.jitter {
            return Some(delay);
        }
        let half = nanos(delay / 2);
        let scattered = u128::from(random) * (u128::from(half) + 1);
        let less = u64::try_from(scattered >> 64).unwrap_or(half);
        Some(delay.saturating_sub(Duration::from_nanos(less)))
    }
}

/// A closure that runs until it succeeds or its policy gives up.
pub(crate) struct Retrying<F> {
    task: F,
    policy: Retry,
    failures: u32,
    /// The delay after the last failure.
    delay: Duration,
}

impl<F> Retrying<F> {
    pub(crate) fn new(task: F, policy: Retry) -> Self {
        Self {
            task,
            policy,
            failures: 0,
            delay: Duration::ZERO,
        }
    }

    pub(crate) fn into_task(self) -> F {
        self.task
    }

    /// Counts a failure: whether there is another attempt.
    fn fail(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        // The keys of a hasher are the randomness that std offers.
        let random = RandomState::new().hash_one(self.failures);
        let delay = self.policy.delay(self.failures, random);
        self.delay = delay.unwrap_or_default();
        delay.is_some()
    }
}

impl<F, T, E> Body for Retrying<F>
where
    F: FnMut() -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    type Out = Result<T, E>;

    fn call(&mut self) -> Option<Result<T, E>> {
        let result = (self.task)();
        if result.is_err() && self.fail() {
            return None; // Another attempt; this error is dropped as a part of the run.
        }
        Some(result)
    }

    fn plan(&self, _plan: Plan) -> Plan {
        Plan::FixedDelay {
            delay: nanos(self.delay),
        }
    }

    fn after_panic(&self) -> AfterPanic<Result<T, E>> {
        AfterPanic::Fail
    }

    fn name() -> &'static str {
        type_name::<F>()
    }

    fn into_unstarted(mut self, _plan: Plan) -> UnstartedTask {
        UnstartedTask::SelfPaced(Box::new(move || -> ControlFlow<(), Duration> {
            match self.call() {
                Some(_) => Break(()),
                None => Continue(self.delay),
            }
        }))
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_the_longest_and_do_not_overflow() {
        let policy = Retry::exponential(SECOND)
            .jitter(false)
            .max_delay(SECOND * 5);
        let delays = [1, 2, 3, 4, 100, u32::MAX].map(|failures| policy.delay(failures, 0));
        assert_eq!(delays, [1, 2, 4, 5, 5, 5].map(|times| Some(SECOND * times)));
        let endless = Retry::exponential(Duration::MAX).max_delay(Duration::MAX);
        for random in [0, u64::MAX] {
            assert!(endless.delay(u32::MAX, random).is_some());
        }
    }

    #[test]
    fn jitter_shortens_a_delay_by_up_to_one_half() {
        let policy = Retry::exponential(SECOND);
        assert_eq!(policy.delay(1, 0), Some(SECOND));
        assert_eq!(policy.delay(1, u64::MAX / 2 + 1), Some(SECOND * 3 / 4));
        assert_eq!(policy.delay(1, u64::MAX), Some(SECOND / 2));
    }

    #[test]
    fn the_last_attempt_has_no_delay_after_it() {
        let policy = Retry::exponential(SECOND).max_attempts(NonZeroU32::MIN.saturating_add(2));
        let delays = [1, 2, 3, 4].map(|failures| policy.delay(failures, 0).is_some());
        assert_eq!(delays, [true, true, false, false]);
    }

    #[test]
    fn tasks_that_fail_together_have_different_delays() {
        let mut delays: Vec<_> = (0..16)
            .map(|_| {
                let mut task = Retrying::new((), Retry::exponential(SECOND));
                assert!(task.fail());
                task.delay
            })
            .collect();
        delays.sort_unstable();
        delays.dedup();
        assert!(
            delays.len() > 1 && delays[0] >= SECOND / 2 && delays.iter().all(|at| *at <= SECOND)
        );
    }
}

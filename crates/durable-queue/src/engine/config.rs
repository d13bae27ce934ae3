//! The options that a builder has set.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dedup_queue::{Exponential, Jitter, Jittered, RateLimiter, TokenBucket};
use sync_shim::Mutex;
use sync_shim::foreign::{discard, guarded};

use crate::engine::hooks::Observer;
use crate::engine::policy::JobPolicy;
use crate::error::StoreError;
use crate::store::Lease;
use crate::store::job::JobId;

/// Default duration of a lease. The jobs of a killed process are handed out again within this time.
pub const LEASE: Duration = Duration::from_secs(10);
/// Maximum duration of a lease: a year.
pub const LONGEST_LEASE: Duration = Duration::from_secs(365 * 86_400);
/// Default number of attempts per job.
pub const MAX_ATTEMPTS: u32 = 20;
/// Default delay after the first failed attempt. It doubles up to [`LONGEST_BACK_OFF`], and is jittered.
pub const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// Default maximum of the back-off.
pub const LONGEST_BACK_OFF: Duration = Duration::from_secs(3_600);
/// Default maximum of jobs that a handler's thread claims at a time.
pub const MOST_JOBS: usize = 1_024;
/// Minimum time that a job waits behind a slow handler before it is released.
pub const SHORTEST_PATIENCE: Duration = Duration::from_millis(10);
/// Default jitter of back-offs, in percent.
pub(crate) const SCATTER: u32 = 25;

/// See [`Builder::rate`](crate::Builder::rate).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) interval: Duration,
    pub(crate) burst: NonZeroU32,
}

impl Rate {
    /// Returns a full bucket.
    pub(crate) fn bucket(self) -> TokenBucket {
        TokenBucket::new(self.interval, self.burst)
    }
}

type Hook = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// See the setters of [`Builder`](crate::Builder).
#[derive(Clone)]
pub(crate) struct Config {
    /// `None`: follows the store's speed.
    pub(crate) horizon: Option<Duration>,
    pub(crate) lease: Duration,
    pub(crate) prefetch: usize,
    pub(crate) heartbeat: bool,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) confirm: bool,
    pub(crate) rate: Option<Rate>,
    pub(crate) on_error: Option<Hook>,
    pub(crate) observer: Option<Arc<Observer>>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("horizon", &self.horizon)
            .field("lease", &self.lease)
            .field("prefetch", &self.prefetch)
            .field("heartbeat", &self.heartbeat)
            .field("attempt_timeout", &self.attempt_timeout)
            .field("confirm", &self.confirm)
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}

/// Consequences of an attempt, by default.
pub(crate) struct Policy {
    pub(crate) limiter: Box<dyn RateLimiter<JobId>>,
    pub(crate) max_attempts: u32,
    /// The policies of kinds, of this process's workers.
    pub(crate) kinds: Mutex<BTreeMap<&'static str, Arc<JobPolicy>>>,
    /// How long done jobs are kept.
    pub(crate) keep_done: Option<Duration>,
    /// How long a job may be unreadable before it is buried.
    pub(crate) unreadable: Duration,
}

impl Policy {
    /// Returns the policy that precedes the queue's: the job's own, then that of its kind.
    pub(crate) fn of(&self, lease: &Lease) -> Option<Arc<JobPolicy>> {
        let kind = lease.kind.as_deref();
        let kinds = kind.and_then(|kind| self.kinds.lock().get(kind).cloned());
        let Some(options) = &lease.options else {
            return kinds;
        };
        let own = JobPolicy::of_text(options);
        Some(Arc::new(kinds.map_or(own, |kind| own.or(*kind))))
    }

    pub(crate) fn max_attempts(&self, own: Option<&JobPolicy>) -> u32 {
        let own = own.and_then(|own| own.max_attempts);
        own.unwrap_or(self.max_attempts)
    }

    /// Returns the delay after a failed attempt, the `attempts`th.
    pub(crate) fn back_off(
        &self,
        own: Option<&JobPolicy>,
        id: JobId,
        attempts: u32,
        now: Instant,
    ) -> Duration {
        if let Some((first, longest)) = own.and_then(|own| own.back_off) {
            let limiter = Exponential::new(first, longest);
            return Jittered::new(limiter, Jitter::Percent(SCATTER)).delay(&id, attempts, now);
        }
        // USER CODE: the limiter. No lock is held. After a panic the job is retried after the default back-off.
        guarded(|| self.limiter.delay(&id, attempts, now)).unwrap_or_else(|payload| {
            discard(payload);
            FIRST_BACK_OFF
        })
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("max_attempts", &self.max_attempts)
            .field("keep_done", &self.keep_done)
            .finish_non_exhaustive()
    }
}

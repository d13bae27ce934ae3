//! The options that a builder has set.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dedup_queue::{RateLimiter, TokenBucket};

use crate::error::StoreError;
use crate::job::JobId;

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

/// Consequences of a failed attempt.
pub(crate) struct Policy {
    pub(crate) limiter: Box<dyn RateLimiter<JobId>>,
    pub(crate) max_attempts: u32,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("max_attempts", &self.max_attempts)
            .finish_non_exhaustive()
    }
}

//! Times of a store's clock.
//!
//! Not for waiting: the store reads its own clock, once per call. This process waits by a
//! [`Clock`](sync_shim::Clock), and the pump knows the offset between the two.
//!
//! # Invariants
//! 1. Durations are rounded up to whole microseconds, so no job falls due too early.
//! 2. Arithmetic saturates at [`StoreTime::NEVER`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A point in time of a store's clock: microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(i64);

impl StoreTime {
    /// A time later than all others.
    pub const NEVER: Self = Self(i64::MAX);

    /// Creates a time from microseconds since 1970, which may be negative.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the time `delay` later, rounded up.
    pub fn after(self, delay: Duration) -> Self {
        let micros = delay.as_nanos().div_ceil(1_000);
        Self(
            self.0
                .saturating_add(i64::try_from(micros).unwrap_or(i64::MAX)),
        )
    }

    /// Returns the time `span` earlier. [`NEVER`](Self::NEVER) does not change.
    pub fn before(self, span: Duration) -> Self {
        if self == Self::NEVER {
            return self;
        }
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// Returns the duration since `earlier`, or zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_micros(u64::try_from(micros.max(0)).unwrap_or(u64::MAX))
    }
}

/// Rounds up, and saturates at the ends of the range.
impl From<SystemTime> for StoreTime {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Self(0).after(since),
            Err(before) => Self(0).before(before.duration()),
        }
    }
}

impl fmt::Debug for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("never"),
            Self(micros) => write!(f, "{micros} us"),
        }
    }
}

/// Due time of a job. A delay counts from the time at which the store processes the call, by the store's
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This long after the store processes the call.
    After(Duration),
    /// At this time of the store's clock, which may have passed.
    At(StoreTime),
}

impl When {
    /// As soon as possible.
    pub const NOW: Self = Self::After(Duration::ZERO);

    /// Returns the due time, for a store whose clock shows `now`.
    pub fn resolve(self, now: StoreTime) -> StoreTime {
        match self {
            Self::After(delay) => now.after(delay),
            Self::At(at) => at,
        }
    }
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        Self::After(delay)
    }
}

impl From<StoreTime> for When {
    fn from(at: StoreTime) -> Self {
        Self::At(at)
    }
}

impl From<SystemTime> for When {
    fn from(at: SystemTime) -> Self {
        Self::At(at.into())
    }
}

/// Clock of a store without a clock of its own, such as a file.
///
/// All processes that share the store must see the same time.
pub trait StoreClock: fmt::Debug + Send + Sync + 'static {
    /// Returns the current time. Must be fast, and must not call the store.
    fn now(&self) -> StoreTime;
}

impl<C: StoreClock + ?Sized> StoreClock for Arc<C> {
    fn now(&self) -> StoreTime {
        (**self).now() // USER CODE: a store's clock, perhaps under the store's own lock: it must not call back.
    }
}

/// The machine's wall clock, which all its processes share.
///
/// If the clock is set back, jobs fall due later. If it is set forward, jobs fall due at once and leases
/// expire early, so their holders are fenced off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallClock;

impl StoreClock for WallClock {
    fn now(&self) -> StoreTime {
        // Not read in models, which supply their own clock.
        match SystemTime::UNIX_EPOCH.elapsed() {
            // Rounded down: a store's clock that is late by less than a microsecond starts no job early.
            Ok(since) => StoreTime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
            Err(before) => StoreTime(0).before(before.duration()),
        }
    }
}

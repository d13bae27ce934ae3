//! Time by the clock of a store.
//!
//! Not for: waiting. A store's clock is read by the store, once for each call; what waits in this
//! process waits by a [`Clock`](sync_shim::Clock), and the offset between the two is the pump's.
//!
//! # What always holds
//! 1. A duration is rounded up to whole microseconds, so nothing falls due too early.
//! 2. Arithmetic saturates: too far is [`StoreTime::NEVER`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A point of a store's clock: microseconds since the beginning of 1970, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(i64);

impl StoreTime {
    /// Past every point that comes.
    pub const NEVER: Self = Self(i64::MAX);

    /// So many microseconds after the beginning of 1970, or before it.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the beginning of 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The point `delay` later, rounded up.
    pub fn after(self, delay: Duration) -> Self {
        let micros = delay.as_nanos().div_ceil(1_000);
        Self(
            self.0
                .saturating_add(i64::try_from(micros).unwrap_or(i64::MAX)),
        )
    }

    /// The point `span` earlier. [`NEVER`](Self::NEVER) stays what it is.
    pub fn before(self, span: Duration) -> Self {
        if self == Self::NEVER {
            return self;
        }
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// How much later this is than `earlier`; nothing if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_micros(u64::try_from(micros.max(0)).unwrap_or(u64::MAX))
    }
}

/// Rounds up. What lies beyond is the nearest point there is.
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

/// When a job is to be due. A delay counts from the moment at which the store takes the call, by
/// the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So long after the store took the call.
    After(Duration),
    /// At this point of the store's clock, which may have passed.
    At(StoreTime),
}

impl When {
    /// As soon as possible.
    pub const NOW: Self = Self::After(Duration::ZERO);

    /// The point that is meant, for a store whose clock shows `now`.
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

/// The clock of a store that has none of its own, as one in a file.
///
/// All processes that share the store must see the same time by it.
pub trait StoreClock: fmt::Debug + Send + Sync + 'static {
    /// The present. Must be quick, and must not call back into the store.
    fn now(&self) -> StoreTime;
}

impl<C: StoreClock + ?Sized> StoreClock for Arc<C> {
    fn now(&self) -> StoreTime {
        (**self).now() // USER CODE: a store's clock, perhaps under the store's own lock: it must not call back.
    }
}

/// The machine's wall clock, which all of its processes share.
///
/// A clock that is set back makes what is due by then due again later; one that is set forward
/// makes it due at once, and ends leases early: their holders are fenced off, not believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallClock;

impl StoreClock for WallClock {
    fn now(&self) -> StoreTime {
        // No model's time: a model hands in a clock of its own.
        match SystemTime::UNIX_EPOCH.elapsed() {
            // Rounded down: a store's clock that is late by less than a microsecond is not early.
            Ok(since) => StoreTime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
            Err(before) => StoreTime(0).before(before.duration()),
        }
    }
}

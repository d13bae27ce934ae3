//! The builder of a queue, and its configuration.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use sync_shim::Clock;
#[cfg(anthill_loom)]
pub(crate) use sync_shim::ManualClock as DefaultClock;
#[cfg(not(anthill_loom))]
pub(crate) use sync_shim::MonotonicClock as DefaultClock;

use crate::DelayQueue;
use crate::error::BuildError;

/// The system's monotonic clock; in models a manual clock.
#[cfg_attr(
    not(anthill_loom),
    expect(
        clippy::default_constructed_unit_structs,
        reason = "the models' clock is no unit struct"
    )
)]
pub(crate) fn default_clock() -> DefaultClock {
    DefaultClock::default()
}

/// Configures a [`DelayQueue`]. Created by [`DelayQueue::builder`].
///
/// ```
/// use std::time::Duration;
/// use delay_queue::DelayQueue;
///
/// let queue: DelayQueue<u64> = DelayQueue::builder()
///     .bound(1_000)
///     .coalesce(Duration::from_millis(1))
///     .build()?;
/// # Ok::<(), delay_queue::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<T, C = DefaultClock> {
    config: Config<C>,
    /// The builder contains no values.
    values: PhantomData<fn() -> T>,
}

impl<T, C: Clone> Clone for Builder<T, C> {
    fn clone(&self) -> Self {
        Self::from_config(self.config.clone())
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Builder<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.config).finish()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Config<C> {
    pub(crate) clock: C,
    pub(crate) bound: usize,
    pub(crate) capacity: usize,
    pub(crate) coalesce: Duration,
    pub(crate) spin: Duration,
}

impl<C> Config<C> {
    pub(crate) fn new(clock: C) -> Self {
        Self {
            clock,
            bound: usize::MAX,
            capacity: 0,
            coalesce: Duration::ZERO,
            spin: Duration::ZERO,
        }
    }
}

impl<T> Builder<T> {
    pub(crate) fn new() -> Self {
        Self::from_config(Config::new(default_clock()))
    }
}

impl<T, C> Builder<T, C> {
    fn from_config(config: Config<C>) -> Self {
        Self {
            config,
            values: PhantomData,
        }
    }
}

impl<T, C: Clock> Builder<T, C> {
    /// Sets the maximum number of entries: further pushes wait or are rejected. The default, and
    /// the upper limit, is the number of entries that a [`DelayHeap`](crate::DelayHeap) can hold;
    /// such a queue is called unbounded.
    pub fn bound(mut self, bound: usize) -> Self {
        self.config.bound = bound;
        self
    }

    /// Allocates memory for `capacity` entries at once, at most for as many as a
    /// [`DelayHeap`](crate::DelayHeap) can hold.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.config.capacity = capacity;
        self
    }

    /// Sets how much later than the earliest entry a waiting consumer may wake, to find several due
    /// entries at once. This saves wake-ups and delays entries; no entry becomes early. Applies to threads
    /// and to the alarm of futures.
    pub fn coalesce(mut self, window: Duration) -> Self {
        self.config.coalesce = window;
        self
    }

    /// Sets how long before the earliest entry a waiting thread wakes, to spin until that entry is
    /// due. The thread occupies a processor for that long and takes the entry within a microsecond,
    /// whereas a sleep ends tens of microseconds late. Has no effect on futures, nor if it is shorter
    /// than a wake-up (some 100 µs). Off by default. A spin window turns coalescing off, also for
    /// futures.
    pub fn spin_window(mut self, window: Duration) -> Self {
        self.config.spin = window;
        self
    }

    /// Sets the clock that decides which entries are due.
    pub fn clock<D: Clock>(self, clock: D) -> Builder<T, D> {
        Builder::from_config(Config {
            clock,
            bound: self.config.bound,
            capacity: self.config.capacity,
            coalesce: self.config.coalesce,
            spin: self.config.spin,
        })
    }

    /// Creates the queue.
    ///
    /// # Errors
    /// [`BuildError::ZeroBound`].
    pub fn build(self) -> Result<DelayQueue<T, C>, BuildError>
    where
        T: Send + 'static,
    {
        if self.config.bound == 0 {
            return Err(BuildError::ZeroBound);
        }
        Ok(DelayQueue::from_config(self.config))
    }
}

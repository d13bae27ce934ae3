//! How a queue is made.

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

/// The machine's own clock; in models one that is moved by hand.
#[cfg_attr(
    not(anthill_loom),
    expect(
        clippy::default_constructed_unit_structs,
        reason = "the models' clock is none"
    )
)]
pub(crate) fn default_clock() -> DefaultClock {
    DefaultClock::default()
}

/// Says how a [`DelayQueue`] is to be. [`DelayQueue::builder`] begins one.
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
    /// Of which it has none.
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
    /// The most entries there may be: further pushes wait or are refused. If not said, or if it is
    /// more than that, as many as a [`DelayHeap`](crate::DelayHeap) can hold: unbounded, as one
    /// says.
    pub fn bound(mut self, bound: usize) -> Self {
        self.config.bound = bound;
        self
    }

    /// Memory for so many entries is allocated at once, for as many as a
    /// [`DelayHeap`](crate::DelayHeap) can hold at most.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.config.capacity = capacity;
        self
    }

    /// How much later than the earliest entry a waiting consumer may wake, so that it finds several
    /// due at once: fewer wake-ups, later entries. Nothing is early because of it. It holds for
    /// threads, and for the alarm of futures.
    pub fn coalesce(mut self, window: Duration) -> Self {
        self.config.coalesce = window;
        self
    }

    /// How long before the earliest entry a waiting thread wakes, to spin until it is due. It
    /// burns a processor for that long and takes the entry within a microsecond, where a sleep
    /// ends tens of microseconds late. Not for futures, and of no use below what a wake-up takes
    /// (some 100 µs). Off if not said; with it, there is no coalescing, for futures neither.
    pub fn spin_window(mut self, window: Duration) -> Self {
        self.config.spin = window;
        self
    }

    /// The clock that says what is due.
    pub fn clock<D: Clock>(self, clock: D) -> Builder<T, D> {
        Builder::from_config(Config {
            clock,
            bound: self.config.bound,
            capacity: self.config.capacity,
            coalesce: self.config.coalesce,
            spin: self.config.spin,
        })
    }

    /// Makes the queue.
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

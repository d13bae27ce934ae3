//! A brief wait without blocking: first in the processor, then through the scheduler, each round
//! longer than the last.
//!
//! Not for: waits that may take long. After the last round the caller has to block.
//!
//! The yields double as in the lock of ants (Go), up to [`MAX_YIELDS`]. The two ways of waiting and
//! their names are those of crossbeam's `Backoff`.

use sync_shim::thread::{spin_loop, yield_briefly, yield_now};

/// Rounds of [`snooze`](Backoff::snooze) that spin. Few, because with more threads than cores this
/// thread may keep the thread that it waits for from running.
pub const SPIN_ROUNDS: u32 = 2;

/// Rounds of [`snooze`](Backoff::snooze) that yield. The caller should block after them.
pub const YIELD_ROUNDS: u32 = 5;

/// Yields in the longest round.
pub const MAX_YIELDS: u32 = 16;

/// Spin hints in the longest round of [`spin`](Backoff::spin).
pub const MAX_SPINS: u32 = 64;

/// Progress of one wait. Create one, or [`reset`](Backoff::reset) it, for each wait.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use backoff_spinlock::Backoff;
///
/// /// Waits a little for `ready`. Returns `false` if it is time to block.
/// fn brief_wait(ready: &AtomicBool) -> bool {
///     let mut backoff = Backoff::new();
///     while !ready.load(Ordering::Acquire) {
///         if backoff.is_completed() {
///             return false;
///         }
///         backoff.snooze();
///     }
///     true
/// }
/// assert!(brief_wait(&AtomicBool::new(true)));
/// assert!(!brief_wait(&AtomicBool::new(false)));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    round: u32,
    /// The round at which it is time to block.
    last: u32,
}

impl Backoff {
    /// Creates a back-off for a new wait.
    pub const fn new() -> Self {
        Self::with_yield_rounds(YIELD_ROUNDS)
    }

    /// Creates a back-off that is [completed](Self::is_completed) after `rounds` rounds of yields.
    /// With 0 it never yields.
    ///
    /// A yield that finds another thread ready can last that thread's whole time slice, some
    /// milliseconds: fewer rounds are fairer, more rounds are faster.
    pub const fn with_yield_rounds(rounds: u32) -> Self {
        Self {
            round: 0,
            last: SPIN_ROUNDS.saturating_add(rounds),
        }
    }

    /// Spins: 1, 2, 4, .. up to [`MAX_SPINS`] hints. For retrying an exchange
    /// that another thread has just won: that thread is making progress.
    pub fn spin(&mut self) {
        (0..doubled(self.round, MAX_SPINS)).for_each(|_| spin_loop());
        self.round = self.round.saturating_add(1);
    }

    /// Waits for another thread: spins for a few rounds, then yields 1, 2, 4, .. up to [`MAX_YIELDS`]
    /// times.
    pub fn snooze(&mut self) {
        self.wait_a_round(|times| {
            (0..times).for_each(|_| yield_now());
            true
        });
    }

    /// Like [`snooze`](Backoff::snooze), but returns `false` without waiting if it is time to
    /// block. That is also the case when recent yields let in threads that kept the core for a
    /// millisecond or more.
    pub(crate) fn try_snooze(&mut self) -> bool {
        !self.is_completed() && self.wait_a_round(yield_briefly)
    }

    /// Waits one round. `yields` yields a number of times and returns whether it did.
    fn wait_a_round(&mut self, yields: impl FnOnce(u32) -> bool) -> bool {
        let yielded = match self.round.checked_sub(SPIN_ROUNDS) {
            None => {
                (0..doubled(self.round, MAX_SPINS)).for_each(|_| spin_loop());
                true
            }
            Some(round) => yields(doubled(round, MAX_YIELDS)),
        };
        self.round = self.round.saturating_add(1);
        yielded
    }

    /// Returns whether it is time to block.
    pub const fn is_completed(&self) -> bool {
        self.round >= self.last
    }

    /// Starts a new wait.
    pub const fn reset(&mut self) {
        self.round = 0;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns 2 to the power of `round`, at most `most`. In a model hints and yields are the same, and
/// one of them is as good as many.
const fn doubled(round: u32, most: u32) -> u32 {
    if cfg!(anthill_loom) {
        return 1;
    }
    match 1u32.checked_shl(round) {
        Some(times) if times < most => times,
        _ => most,
    }
}

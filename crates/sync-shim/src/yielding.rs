//! Yields that pay.
//!
//! A yield is the cheapest way to wait for a thread that is ready and has no core, as long as those
//! who are let in have little to do. Where others compute, each yield lets one of them run for a
//! whole slice of some milliseconds, while a thread that sleeps is woken within microseconds. So
//! each yield is timed, and after one that took long nobody yields for a while.
//!
//! Not for: semantic time. This is about the machine, so it reads the machine's clock, and one
//! process has one such memory.

use std::time::{Duration, Instant};

use crate::atomic::{AtomicU32, Ordering::Relaxed};

/// Longer than threads that yield to each other take; shorter than a slice of Linux's scheduler.
const LONG: Duration = Duration::from_millis(1);

/// How often nobody yields after such a one. One slice is lost in so many waits.
const REST: u32 = 1000;

static CROWD: Crowd = Crowd(AtomicU32::new(0));

/// How many yields are to be left out. Relaxed, and counted down without care: it is a guess.
struct Crowd(AtomicU32);

impl Crowd {
    /// Whether to yield now.
    #[inline]
    fn allows(&self) -> bool {
        let rest = self.0.load(Relaxed);
        if rest > 0 {
            self.0.store(rest - 1, Relaxed);
        }
        rest == 0
    }

    /// A yield took so long.
    #[inline]
    fn took(&self, time: Duration) {
        if time > LONG {
            self.0.store(REST, Relaxed);
        }
    }
}

/// Lets other threads run, so often, if any are ready. `false`, and nothing else, if yields have
/// lately taken long: then it is better to sleep.
#[inline]
pub fn yield_briefly(times: u32) -> bool {
    if !CROWD.allows() {
        return false;
    }
    let before = Instant::now();
    (0..times).for_each(|_| std::thread::yield_now());
    CROWD.took(before.elapsed());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_long_yield_nobody_yields_for_a_while() {
        let crowd = Crowd(AtomicU32::new(0));
        crowd.took(LONG);
        assert!(crowd.allows());
        crowd.took(LONG + Duration::from_nanos(1));
        for _ in 0..REST {
            assert!(!crowd.allows());
        }
        assert!(crowd.allows());
    }
}

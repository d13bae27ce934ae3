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

/// How often nobody yields after one such, and at most after many in a row.
const REST: [u32; 2] = [8, 2048];

static CROWD: Crowd = Crowd::new();

/// Relaxed, and changed without care: it is a guess.
struct Crowd {
    /// How many yields are to be left out.
    rest: AtomicU32,
    /// How many were, after the last long one; 0 if a short one has come since.
    last: AtomicU32,
}

impl Crowd {
    const fn new() -> Self {
        Self {
            rest: AtomicU32::new(0),
            last: AtomicU32::new(0),
        }
    }

    /// Whether to yield now.
    #[inline]
    fn allows(&self) -> bool {
        let rest = self.rest.load(Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Relaxed);
        }
        rest == 0
    }

    /// A yield took so long. Some do wherever threads exceed cores; that all do, only beside
    /// threads that compute without end.
    #[inline]
    fn took(&self, time: Duration) {
        let before = self.last.load(Relaxed);
        if time > LONG {
            let [least, most] = REST;
            let rest = (before * 2).clamp(least, most);
            self.last.store(rest, Relaxed);
            self.rest.store(rest, Relaxed);
        } else if before > 0 {
            self.last.store(0, Relaxed);
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

    /// How often it forbids a yield until it allows one.
    fn rest(crowd: &Crowd) -> u32 {
        let mut rest = 0;
        while !crowd.allows() {
            rest += 1;
        }
        rest
    }

    #[test]
    fn after_long_yields_in_a_row_nobody_yields_for_longer_and_longer() {
        let crowd = Crowd::new();
        let long = LONG + Duration::from_nanos(1);
        crowd.took(LONG);
        assert_eq!(rest(&crowd), 0);
        for expected in [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 2048] {
            crowd.took(long);
            assert_eq!(rest(&crowd), expected);
        }
        crowd.took(LONG);
        assert_eq!(rest(&crowd), 0);
        crowd.took(long);
        assert_eq!(rest(&crowd), 8, "a short one has come between");
    }
}

//! Work of a known duration.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::meter::cores;

/// The steps that this processor makes per nanosecond.
#[derive(Clone, Copy)]
pub struct Pace(f64);

/// About a nanosecond per step. Each step depends on the previous one.
#[inline]
pub fn steps(count: u32) {
    let mut value = 1_u64;
    for _ in 0..count {
        value = black_box((value ^ (value >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

impl Pace {
    /// Measures with `threads` threads at once, because cores that share resources are slower
    /// together, as they will be in the case.
    pub fn measure(threads: u32) -> Self {
        let (threads, begin) = (
            threads.min(cores()),
            Barrier::new(threads.min(cores()) as usize),
        );
        let bests: f64 = thread::scope(|scope| {
            let best = || {
                begin.wait();
                best_trial().as_secs_f64()
            };
            let bests: Vec<_> = (0..threads).map(|_| scope.spawn(best)).collect();
            let bests = bests.into_iter().map(thread::ScopedJoinHandle::join);
            bests.map(|best| best.expect("no trial panics")).sum()
        });
        Self(f64::from(TRIAL) * f64::from(threads) / (bests * 1e9))
    }

    /// The steps that take this long.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "work is a few million steps at most"
    )]
    pub fn steps_of(self, length: Duration) -> u32 {
        (self.0 * length.as_secs_f64() * 1e9).round() as u32
    }
}

/// Steps of a trial, about 20 microseconds.
const TRIAL: u32 = 20_000;

/// The best of many short trials, because every disturbance makes a trial longer.
fn best_trial() -> Duration {
    steps(20 * TRIAL); // The processor may have to leave a sleep state.
    let trial = |_| {
        let start = Instant::now();
        steps(TRIAL);
        start.elapsed()
    };
    (0..200).map(trial).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_time_is_twice_the_steps() {
        let pace = Pace(2.0);
        assert_eq!(pace.steps_of(Duration::from_nanos(100)), 200);
        assert_eq!(pace.steps_of(Duration::from_micros(1)), 2000);
    }
}

//! The delay from the submit of each task to its start.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;
use std::time::{Duration, Instant};

use crate::percentiles::Percentiles;

/// The delays of a fixed number of tasks. Never freed, so that tasks may refer to it.
pub struct Stamps {
    /// Nanoseconds, in the order in which tasks started.
    delays: Vec<AtomicU64>,
    began: AtomicUsize,
}

impl Stamps {
    pub fn of(tasks: u32) -> &'static Self {
        Box::leak(Box::new(Self {
            delays: (0..tasks).map(|_| AtomicU64::new(0)).collect(),
            began: AtomicUsize::new(0),
        }))
    }

    /// Called first by each task: records how long ago it was submitted.
    #[inline]
    pub fn begin(&self, submitted: Instant) {
        let delay = u64::try_from(submitted.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.note(delay);
    }

    /// Records a delay that was measured otherwise.
    pub fn note(&self, delay: u64) {
        let place = self.began.fetch_add(1, Relaxed); // Only makes the places distinct.
        if let Some(slot) = self.delays.get(place) {
            // Zero means that the task has not started. Pairs with the Acquire in `wait`.
            slot.store(delay.max(1), Release);
        }
    }

    /// Sleeps until all `tasks` have started, and returns their delays.
    pub fn wait(&self, tasks: usize) -> Percentiles {
        let delays = self.delays.iter().take(tasks).map(|slot| {
            loop {
                match slot.load(Acquire) {
                    0 => thread::sleep(Duration::from_micros(100)),
                    delay => return delay,
                }
            }
        });
        Percentiles::new(delays.collect())
    }

    /// Returns the capacity in tasks.
    pub fn room(&self) -> usize {
        self.delays.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_returned_sorted() {
        let stamps = Stamps::of(3);
        thread::scope(|scope| {
            for delay in [3000, 1000, 2000] {
                scope.spawn(move || stamps.note(delay));
            }
        });
        let of_three = stamps.wait(stamps.room());
        assert_eq!(of_three.at(0.0), Duration::from_micros(1));
        assert_eq!(of_three.at(1.0), Duration::from_micros(3));
    }
}

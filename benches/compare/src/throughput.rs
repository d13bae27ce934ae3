//! The time of many tasks, from the first submit to the last completion.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::count::{bumps, wait_for};
use crate::meter::{Meter, Spent};
use crate::report::Report;

/// The limit of tasks that may wait in an unbounded queue. More would use memory and show nothing
/// new.
const MOST: u32 = 2_000_000;

/// A measured section and the number of its tasks.
#[derive(Clone, Copy)]
pub struct Throughput {
    pub spent: Spent,
    pub tasks: u32,
}

impl Throughput {
    pub fn report(self) -> Report {
        Report::new().per_task(self.spent, self.tasks)
    }

    /// Returns the time as a multiple of the bare work on `cores` processors.
    pub fn over_ideal(self, work: Duration, cores: u32) -> f64 {
        let ideal = work.as_secs_f64() * f64::from(self.tasks) / f64::from(cores);
        self.spent.wall.as_secs_f64() / ideal
    }
}

/// Calls `submit` from `producers` threads, as often as takes about `budget`. Each call must make
/// one task end in a [`bump`](crate::count::bump). See [`measure_by`].
pub fn measure(producers: u32, budget: Duration, submit: impl Fn() + Sync) -> Throughput {
    measure_by(budget, |tasks| section(producers, tasks, &submit))
}

/// Calls `section` with a number of tasks that takes about `budget`. It returns the time of the
/// tasks.
///
/// Shorter sections come first. They warm the pool and determine how many tasks fit into the
/// budget. They are long enough that a thread which waits for a core does not decide. If tasks take
/// long, a section has few of them, and shows the time of a single one.
pub fn measure_by(budget: Duration, mut section: impl FnMut(u32) -> Spent) -> Throughput {
    let mut tasks = 32; // Small, because some tasks are long.
    let mut spent = section(tasks);
    while spent.wall < budget / 8 && tasks < MOST / 8 {
        tasks *= 4;
        spent = section(tasks);
    }
    let mut wall = spent.wall;
    if wall < budget {
        // Repeated: if the last one was slow by chance, the measured section would be too short.
        wall = wall.min(section(tasks).wall);
    }
    let mut done = Throughput { spent, tasks };
    for _ in 0..3 {
        let fit = budget.as_secs_f64() / wall.as_secs_f64() * f64::from(done.tasks);
        let tasks = whole(fit.clamp(32.0, f64::from(MOST)));
        let spent = section(tasks);
        done = Throughput { spent, tasks };
        wall = spent.wall;
        if wall > budget / 3 || tasks == MOST {
            break;
        }
    }
    done
}

/// The same for a given number of tasks, all of which are counted.
pub fn section(producers: u32, tasks: u32, submit: &(impl Fn() + Sync)) -> Spent {
    let target = bumps() + u64::from(tasks);
    // The producers' threads are started before, and begin together.
    let begin = Barrier::new(producers as usize + 1);
    let meter = thread::scope(|scope| {
        for producer in 0..producers {
            let begin = &begin;
            let share = tasks / producers + u32::from(producer < tasks % producers);
            scope.spawn(move || {
                begin.wait();
                begin.wait();
                (0..share).for_each(|_| submit());
            });
        }
        begin.wait();
        let meter = Meter::start();
        begin.wait();
        meter
    });
    wait_for(target);
    meter.stop()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped before"
)]
fn whole(number: f64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::bump;

    #[test]
    fn over_ideal_is_one_for_a_perfect_pool() {
        let perfect = Throughput {
            spent: Spent {
                wall: Duration::from_millis(50),
                cpu: Duration::ZERO,
            },
            tasks: 100,
        };
        let over = perfect.over_ideal(Duration::from_millis(1), 2);
        assert!((over - 1.0).abs() < 1e-9);
    }

    #[test]
    fn every_producers_share_is_submitted() {
        section(3, 10, &bump); // Hangs if one were missing.
    }
}

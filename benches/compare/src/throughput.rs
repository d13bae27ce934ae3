//! How long many tasks take, from the first submit to the last completion.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::count::{bumps, wait_for};
use crate::meter::{Meter, Spent};
use crate::report::Report;

/// Tasks that may be waiting in an unbounded queue: memory for more says little and takes long.
const MOST: u32 = 2_000_000;

/// One measured section of so many tasks.
#[derive(Clone, Copy)]
pub struct Throughput {
    pub spent: Spent,
    pub tasks: u32,
}

impl Throughput {
    pub fn report(self) -> Report {
        Report::new().per_task(self.spent, self.tasks)
    }

    /// The time as a multiple of what the bare work takes on `cores` processors.
    pub fn over_ideal(self, work: Duration, cores: u32) -> f64 {
        let ideal = work.as_secs_f64() * f64::from(self.tasks) / f64::from(cores);
        self.spent.wall.as_secs_f64() / ideal
    }
}

/// Calls `submit` from so many threads, as often as takes about `budget`; each call must make one
/// task end in a [`bump`](crate::count::bump). See [`measure_by`].
pub fn measure(producers: u32, budget: Duration, submit: impl Fn() + Sync) -> Throughput {
    measure_by(budget, |tasks| section(producers, tasks, &submit))
}

/// Calls `section` with a number of tasks that takes about `budget`; it says what they took.
///
/// The first, shorter sections warm the pool and say how many tasks fit into the budget. They are a
/// part of it large enough that a thread which waits its turn for a core does not decide. Where
/// tasks take long, a section has few of them: what it shows is the time of one.
pub fn measure_by(budget: Duration, mut section: impl FnMut(u32) -> Spent) -> Throughput {
    let mut tasks = 32; // Some are long.
    let mut spent = section(tasks);
    while spent.wall < budget / 8 && tasks < MOST / 8 {
        tasks *= 4;
        spent = section(tasks);
    }
    let mut wall = spent.wall;
    if wall < budget {
        // Once more: were the last one slow by chance, the measured section would be too short.
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

/// The same for a given number of tasks, all counted.
pub fn section(producers: u32, tasks: u32, submit: &(impl Fn() + Sync)) -> Spent {
    let target = bumps() + u64::from(tasks);
    // The producers' threads are started before, and set out together.
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
    fn every_share_is_submitted_however_it_divides() {
        section(3, 10, &bump); // Would wait for ever, were one missing.
    }
}

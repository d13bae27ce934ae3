//! Random programs of schedules, cancels, clock steps and releases: every handle ends, every run is
//! counted, no run is early, and no schedule is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use pool_core::{Clock, JoinError, ManualClock};
use scheduled_pool::{Missed, ScheduledHandle, ScheduledPool, Series, SeriesHandle};
use testkit::{DropCounter, Rng};

use crate::support::{Rig, secs, until, untimed};

struct Program {
    rig: Rig,
    rng: Rng,
    drops: DropCounter,
    runs: Arc<AtomicU64>,
    tasks: Vec<ScheduledHandle<()>>,
    series: Vec<SeriesHandle>,
}

impl Program {
    fn new(rng: Rng) -> Self {
        let mut rng = rng;
        let clock = ManualClock::new();
        let pool = untimed(1 + rng.below(3), &clock)
            .queue_depth(rng.below(3))
            .build()
            .unwrap();
        let scheduled = ScheduledPool::builder(pool)
            .run_pending(rng.chance(2))
            .continue_series(rng.chance(2))
            .build()
            .unwrap();
        Self {
            rig: Rig::of(scheduled, clock),
            rng,
            drops: DropCounter::new(),
            runs: Arc::default(),
            tasks: Vec::new(),
            series: Vec::new(),
        }
    }

    fn delay(&mut self) -> Duration {
        match self.rng.below(12) {
            0 => Duration::ZERO,
            1 => Duration::MAX,
            seconds => secs(seconds as u64),
        }
    }

    fn spawn_task(&mut self) {
        let (token, runs) = (self.drops.token(), Arc::clone(&self.runs));
        let (delay, clock) = (self.delay(), self.rig.clock.clone());
        let due = clock.now().checked_add(delay);
        let panics = self.rng.chance(8);
        let task = move || {
            assert!(due.is_some_and(|due| clock.now() >= due), "it is early");
            drop(token);
            runs.fetch_add(1, SeqCst);
            assert!(!panics, "the program asks for a panic");
        };
        let handle = self.rig.scheduled.spawn_after(delay, task).unwrap();
        self.tasks.push(handle);
    }

    fn spawn_series(&mut self) {
        let (token, runs) = (self.drops.token(), Arc::clone(&self.runs));
        let period = secs(1 + self.rng.below(5) as u64);
        let policy = [Missed::Skip, Missed::Burst, Missed::Delay][self.rng.below(3)];
        let mut series = if self.rng.chance(2) {
            Series::at_fixed_rate(period).missed(policy)
        } else {
            Series::with_fixed_delay(period)
        };
        if self.rng.chance(2) {
            series = series.max_runs(std::num::NonZeroU64::new(3).unwrap());
        }
        let mut left = 1 + self.rng.below(10);
        let panics = self.rng.chance(3);
        let delay = self.delay();
        let task = move || {
            let _ = &token;
            runs.fetch_add(1, SeqCst);
            left = left.saturating_sub(1);
            assert!(!(panics && left == 0), "the program asks for a panic");
        };
        let handle = self
            .rig
            .scheduled
            .spawn_series(delay, &series, task)
            .unwrap();
        self.series.push(handle);
    }

    fn step(&mut self) {
        match self.rng.below(8) {
            0 | 1 => self.spawn_task(),
            2 => self.spawn_series(),
            3 if !self.tasks.is_empty() => {
                let index = self.rng.below(self.tasks.len());
                self.tasks[index].cancel();
            }
            4 if !self.series.is_empty() => {
                let index = self.rng.below(self.series.len());
                self.series[index].cancel();
            }
            5 => std::thread::yield_now(),
            _ => self.rig.clock.advance(secs(self.rng.below(4) as u64)),
        }
    }

    fn finish(mut self) {
        if self.rng.chance(4) {
            self.rig.pool.release();
        } else if self.rng.chance(3) {
            self.rig.scheduled.release_now();
        } else {
            self.rig.scheduled.release();
            // Cancels endless series. Pending tasks will run.
            for series in &self.series {
                series.cancel();
            }
            for _ in 0..12 {
                self.rig.clock.advance(secs(1));
            }
        }
        self.rig.scheduled.wait_released().unwrap();
        for task in self.tasks {
            let joined = task.try_join().expect("it has ended");
            assert!(!matches!(joined, Err(JoinError::Taken)), "{joined:?}");
        }
        let mut runs = 0;
        for series in self.series {
            runs += series.runs();
            let joined = series.try_join().expect("it has ended");
            assert!(!matches!(joined, Err(JoinError::Taken)), "{joined:?}");
        }
        let stats = self.rig.scheduled.stats();
        assert!(runs <= stats.runs);
        assert_eq!(stats.runs, self.runs.load(SeqCst));
        let pool = self.rig.pool.stats();
        assert_eq!(pool.completed + pool.panicked, stats.runs);
        assert_eq!(pool.panicked, stats.panicked);
        until(|| self.drops.alive() == 0);
        self.rig.end();
    }
}

#[testkit::test]
fn random_programs_end_every_handle_and_leave_no_schedule() {
    let mut rng = Rng::from_env();
    for _ in 0..400 {
        let mut program = Program::new(rng.split());
        for _ in 0..program.rng.below(60) {
            program.step();
        }
        program.finish();
    }
}

//! What does a short critical section cost, and how evenly do threads enter?

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use backoff_spinlock::SpinLock;

use crate::meter::{Meter, Spent};
use crate::peers::{QUICK, unknown};
use crate::report::Report;
use crate::work::steps;
use measure::case::{Case, Outcome, Run};

/// A number behind a lock.
trait Lock: Sync + Default {
    fn with(&self, section: impl FnOnce(&mut u64));
}

impl Lock for SpinLock<u64> {
    #[inline]
    fn with(&self, section: impl FnOnce(&mut u64)) {
        section(&mut self.lock());
    }
}

impl Lock for parking_lot::Mutex<u64> {
    #[inline]
    fn with(&self, section: impl FnOnce(&mut u64)) {
        section(&mut self.lock());
    }
}

impl Lock for std::sync::Mutex<u64> {
    #[inline]
    fn with(&self, section: impl FnOnce(&mut u64)) {
        section(&mut self.lock().expect("no section panics"));
    }
}

impl Lock for spin::Mutex<u64> {
    #[inline]
    fn with(&self, section: impl FnOnce(&mut u64)) {
        section(&mut self.lock());
    }
}

/// Work steps inside a section, some nanoseconds, and outside.
#[derive(Clone, Copy)]
struct Load {
    inside: u32,
    outside: u32,
}

/// Enters sections from `threads` threads until the time is up.
fn enter<L: Lock>(run: &Run, threads: u32, load: Load) -> Report {
    let (lock, over) = (L::default(), AtomicBool::new(false));
    let begin = Barrier::new(threads as usize + 1);
    let body = || {
        begin.wait();
        let mut sections = 0_u32;
        while !over.load(Relaxed) {
            lock.with(|value| {
                steps(load.inside);
                *value += 1;
            });
            steps(load.outside);
            sections += 1;
        }
        sections
    };
    let (spent, sections) = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(body)).collect();
        begin.wait();
        let meter = Meter::start();
        thread::sleep(run.budget());
        over.store(true, Relaxed);
        let sections = threads.into_iter().map(thread::ScopedJoinHandle::join);
        let sections: Vec<u32> = sections.map(|done| done.expect("no panic")).collect();
        (meter.stop(), sections)
    });
    report(spent, &sections)
}

fn report(spent: Spent, sections: &[u32]) -> Report {
    let most = sections.iter().max().copied().unwrap_or(0);
    let least = sections.iter().min().copied().unwrap_or(0);
    let total: f64 = sections.iter().map(|&count| f64::from(count)).sum();
    Report::new()
        .with("wall", "ns/section", spent.wall.as_secs_f64() * 1e9 / total)
        .with("cpu", "ns/section", spent.cpu.as_secs_f64() * 1e9 / total)
        .with(
            "share",
            "max/min",
            f64::from(most) / f64::from(least.max(1)),
        )
}

fn measure(run: &Run, threads: u32, load: Load) -> Outcome {
    Ok(match run.pool.as_str() {
        "anthill" => enter::<SpinLock<u64>>(run, threads, load),
        "parking_lot" => enter::<parking_lot::Mutex<u64>>(run, threads, load),
        "std" => enter::<std::sync::Mutex<u64>>(run, threads, load),
        "spin" => enter::<spin::Mutex<u64>>(run, threads, load),
        other => return Err(unknown(other)),
    })
}

pub fn cases() -> Vec<Case> {
    let pools = ["anthill", "parking_lot", "std", "spin"];
    let mut cases = Vec::new();
    // Nanoseconds outside of the lock.
    for (name, outside) in [("tight", 0), ("apart", 60)] {
        for threads in [1, 4, 8, 16] {
            let load = Load { inside: 8, outside };
            let case = Case::new(
                format!("locks/{name}/{threads}"),
                "Locks",
                "What does a critical section of some nanoseconds cost, and how evenly do threads enter?",
                &pools,
                move |run| measure(run, threads, load),
            );
            let quick = outside == 0 && (threads == 1 || threads == 4);
            let case = case.quick(quick, &[QUICK, &pools].concat());
            cases.push(case);
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts<L: Lock>() -> u64 {
        let lock = L::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| lock.with(|value| *value += 1)));
            }
        });
        let mut total = 0;
        lock.with(|value| total = *value);
        total
    }

    #[test]
    fn every_lock_excludes_other_threads() {
        assert_eq!(counts::<SpinLock<u64>>(), 4000);
        assert_eq!(counts::<parking_lot::Mutex<u64>>(), 4000);
        assert_eq!(counts::<std::sync::Mutex<u64>>(), 4000);
        assert_eq!(counts::<spin::Mutex<u64>>(), 4000);
    }
}

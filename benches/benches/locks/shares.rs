//! The table of policies: the cost of a section, and how evenly threads enter.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use backoff_spinlock::RawSpinLock;

use crate::locks::{Lock, work};
use crate::policy::{FOR_EVER, Policy};

type Under<R> = lock_api::Mutex<R, u64>;
type Run = fn(usize, u64) -> Figures;

const LOCKS: [(&str, Run); 11] = [
    ("backoff-spinlock", run::<Under<RawSpinLock>>),
    (
        "- no turn reserved",
        run::<Under<Policy<2, 3, 4, 0, false>>>,
    ),
    (
        "- yields after a sleep too",
        run::<Under<Policy<2, 3, 4, 3, true>>>,
    ),
    ("- no spins at all", run::<Under<Policy<0, 3, 4, 0, true>>>),
    (
        "- more spins: 5 rounds",
        run::<Under<Policy<5, 3, 4, 0, true>>>,
    ),
    ("- more yields: 31", run::<Under<Policy<2, 5, 16, 0, true>>>),
    (
        "- no yields: 7 rounds of spins",
        run::<Under<Policy<7, 0, 1, 0, true>>>,
    ),
    (
        "- only yields, never sleeps",
        run::<Under<Policy<2, FOR_EVER, 16, 0, false>>>,
    ),
    ("parking_lot", run::<parking_lot::Mutex<u64>>),
    ("std", run::<std::sync::Mutex<u64>>),
    ("spin", run::<spin::Mutex<u64>>),
];

/// Work steps in a section: some nanoseconds, and some twenty microseconds.
const SECTIONS: [u64; 2] = [8, 20_000];
const THREADS: [usize; 4] = [1, 4, 8, 16];
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(300);

#[derive(Clone, Copy)]
struct Figures {
    /// Nanoseconds per section.
    wall: f64,
    /// Processor time per section, of all threads.
    cpu: f64,
    /// Sections of the busiest thread divided by those of the idlest.
    share: f64,
}

/// Interleaves the rounds, so that a change of the machine's load affects all rows alike.
pub(crate) fn print() {
    for steps in SECTIONS {
        println!("\nsections of {steps} steps; wall ns / cpu ns / share median (worst)\n");
        println!(
            "| threads | {} |",
            THREADS.map(|n| n.to_string()).join(" | ")
        );
        println!("|---|---|---|---|---|");
        let columns = THREADS.map(|threads| column(threads, steps));
        for (row, (name, _)) in LOCKS.iter().enumerate() {
            let cells = columns.each_ref().map(|column| column[row].clone());
            println!("| {name} | {} |", cells.join(" | "));
        }
    }
}

fn column(threads: usize, steps: u64) -> Vec<String> {
    let mut rows = vec![Vec::new(); LOCKS.len()];
    for _ in 0..ROUNDS {
        for (row, (_, run)) in rows.iter_mut().zip(&LOCKS) {
            row.push(run(threads, steps));
        }
    }
    rows.iter()
        .map(|row| {
            let wall = median(row.iter().map(|figures| figures.wall));
            let cpu = median(row.iter().map(|figures| figures.cpu));
            let share = median(row.iter().map(|figures| figures.share));
            let worst = row.iter().map(|figures| figures.share).fold(0.0, f64::max);
            format!("{wall:.1} / {cpu:.1} / {share:.1} ({worst:.1})")
        })
        .collect()
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn run<L: Lock>(threads: usize, steps: u64) -> Figures {
    let (lock, over, begin) = (L::new(1), AtomicBool::new(false), Barrier::new(threads + 1));
    let enter = || {
        begin.wait();
        let mut sections = 0_u64;
        while !over.load(Relaxed) {
            lock.with(|value| work(value, steps));
            sections += 1;
        }
        sections
    };
    let (wall, cpu, sections) = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(enter)).collect();
        begin.wait();
        let (start, used) = (Instant::now(), processor_time());
        thread::sleep(ROUND);
        over.store(true, Relaxed);
        let sections: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().expect("no section panics"))
            .collect();
        (
            start.elapsed(),
            processor_time().saturating_sub(used),
            sections,
        )
    });
    let total = sections.iter().sum::<u64>() as f64;
    let most = sections.iter().max().copied().unwrap_or(0) as f64;
    let least = sections.iter().min().copied().unwrap_or(0) as f64;
    Figures {
        wall: wall.as_nanos() as f64 / total,
        cpu: cpu.as_nanos() as f64 / total,
        share: most / least.max(1.0),
    }
}

/// The processor time of this process.
fn processor_time() -> Duration {
    // SAFETY: all-zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid, exclusive reference.
    let known = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    assert_eq!(known, 0);
    let time = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).expect("time used is positive");
        let micros = u64::try_from(time.tv_usec).expect("time used is positive");
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

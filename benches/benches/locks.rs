//! Comparison of locks with critical sections of some nanoseconds.
//!
//! `cargo bench --bench locks` uses criterion and measures the time of a section with one and four
//! threads. `cargo bench --bench locks -- shares` prints the table by which the waiting policy was
//! chosen: time, processor time and shares with up to sixteen threads, including the rejected
//! policies.

#[path = "locks/locks.rs"]
mod locks;
#[path = "locks/policy.rs"]
mod policy;
#[path = "locks/shares.rs"]
mod shares;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use backoff_spinlock::RawSpinLock;
use criterion::{BenchmarkId, Criterion, criterion_group};
use locks::{Lock, work};

/// Work steps in a critical section.
const STEPS: u64 = 8;

criterion_group!(benches, sections);

fn main() {
    if std::env::args().any(|argument| argument == "shares") {
        return shares::print();
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}

fn sections(c: &mut Criterion) {
    for threads in [1, 4] {
        section::<lock_api::Mutex<RawSpinLock, u64>>(c, "backoff-spinlock", threads);
        section::<parking_lot::Mutex<u64>>(c, "parking_lot", threads);
        section::<std::sync::Mutex<u64>>(c, "std", threads);
        section::<spin::Mutex<u64>>(c, "spin", threads);
    }
}

fn section<L: Lock>(c: &mut Criterion, name: &str, threads: u32) {
    let id = BenchmarkId::new(name, format!("{threads} threads"));
    c.benchmark_group("locks/section").bench_function(id, |b| {
        b.iter_custom(|rounds| enter::<L>(rounds, threads));
    });
}

/// Returns the time in which `threads` threads enter `rounds` sections in total.
fn enter<L: Lock>(rounds: u64, threads: u32) -> Duration {
    let lock = L::new(0);
    let each = rounds.div_ceil(threads.into());
    let begin = Barrier::new(threads as usize + 1);
    let start = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                begin.wait();
                (0..each).for_each(|_| lock.with(|value| work(value, STEPS)));
            });
        }
        begin.wait();
        Instant::now()
    });
    start.elapsed()
}

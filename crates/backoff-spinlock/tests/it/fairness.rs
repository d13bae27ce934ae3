//! No thread is starved, judged by counts: a lock that starves a thread hangs these tests. How
//! evenly threads get in is measured (`docs/decisions/spinlock-waiting.md`), and that a reserved
//! turn is respected is a model's business.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use backoff_spinlock::SpinLock;

/// Lets `threads` threads enter sections of `steps` steps without a pause until the last of them
/// has had `turns` turns.
fn hammer(threads: usize, steps: u64, turns: u64) {
    let lock = SpinLock::new(0);
    let had: Vec<_> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for mine in &had {
            scope.spawn(|| {
                while had.iter().any(|had| had.load(Relaxed) < turns) {
                    lock.with(|count| {
                        (0..steps).for_each(|step| _ = black_box(step));
                        *count += 1;
                    });
                    mine.fetch_add(1, Relaxed);
                }
            });
        }
    });
    let had: Vec<_> = had.iter().map(|had| had.load(Relaxed)).collect();
    assert!(had.iter().all(|&had| had >= turns), "{had:?}");
    assert_eq!(lock.into_inner(), had.iter().sum::<u64>());
}

#[testkit::test]
fn every_thread_gets_in_while_the_others_keep_entering_short_sections() {
    for threads in [2, 4, 16] {
        hammer(threads, 10, 1000);
    }
}

/// Such a lock is free for moments only: each time a sleeper comes it may find it held.
#[testkit::test]
fn every_thread_gets_in_while_the_others_keep_entering_long_sections() {
    for threads in [2, 8] {
        hammer(threads, 20_000, 10);
    }
}

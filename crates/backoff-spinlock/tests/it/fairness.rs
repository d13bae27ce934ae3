//! No thread starves: these tests hang if one does. `docs/decisions/spinlock-waiting.md` measures how evenly
//! threads acquire the lock, and a model covers reserved turns.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use backoff_spinlock::SpinLock;

/// Lets `threads` threads enter sections of `steps` steps without a pause until each has had `turns` turns.
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
fn no_thread_starves_among_short_sections() {
    for threads in [2, 4, 16] {
        hammer(threads, 10, 1000);
    }
}

/// Such a lock is free for moments only: a woken thread may find it held each time.
#[testkit::test]
fn no_thread_starves_among_long_sections() {
    for threads in [2, 8] {
        hammer(threads, 20_000, 10);
    }
}

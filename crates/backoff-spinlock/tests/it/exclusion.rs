use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use backoff_spinlock::{SpinLock, SpinMutex};

#[testkit::test]
fn many_more_threads_than_cores_count_exactly() {
    const THREADS: u64 = 64;
    const TIMES: u64 = 2000;
    // Two words that differ if sections overlap.
    let lock = SpinLock::new((0, 0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    let mut pair = lock.lock();
                    assert_eq!(pair.0, pair.1);
                    pair.0 += 1;
                    pair.1 += 1;
                }
            });
        }
    });
    assert_eq!(lock.into_inner(), (THREADS * TIMES, THREADS * TIMES));
}

#[testkit::test]
fn holders_preempted_in_their_section_break_no_exclusion() {
    let lock = SpinMutex::new(0);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut count = lock.lock();
                    let before = *count;
                    thread::yield_now();
                    *count = before + 1;
                }
            });
        }
    });
    assert_eq!(lock.into_inner(), 16 * 200);
}

/// Pins the calling thread, and the threads it starts, to one of the cores it may use.
#[cfg(target_os = "linux")]
fn stay_on_one_core() {
    use libc::{CPU_ISSET, CPU_SET, CPU_SETSIZE, cpu_set_t, sched_getaffinity, sched_setaffinity};

    // SAFETY: all zero is a valid set of cores, the empty one.
    let (mut cores, mut one): (cpu_set_t, cpu_set_t) = unsafe { std::mem::zeroed() };
    let size = size_of::<cpu_set_t>();
    // SAFETY: 0 is the calling thread, and the set outlives the call.
    let known = unsafe { sched_getaffinity(0, size, &raw mut cores) };
    let first = (0..CPU_SETSIZE.unsigned_abs() as usize)
        // SAFETY: the number is within the set.
        .find(|&core| unsafe { CPU_ISSET(core, &cores) })
        .expect("a thread runs on some core");
    // SAFETY: the number is within the set.
    unsafe { CPU_SET(first, &mut one) };
    // SAFETY: 0 is the calling thread, and the set outlives the call.
    let kept = unsafe { sched_setaffinity(0, size, &raw const one) };
    assert_eq!((known, kept), (0, 0));
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn on_one_core_a_waiter_lets_the_holder_run() {
    let lock = SpinLock::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            stay_on_one_core();
            thread::scope(|scope| {
                for _ in 0..32 {
                    scope.spawn(|| {
                        for _ in 0..200 {
                            lock.with(|count| {
                                thread::yield_now(); // All other threads find the lock held.
                                *count += 1;
                            });
                        }
                    });
                }
            });
        });
    });
    assert_eq!(lock.into_inner(), 32 * 200);
}

#[testkit::test]
fn a_panic_in_the_section_releases_the_lock() {
    let lock = SpinLock::new(0);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        lock.with(|value| {
            *value = 1;
            panic!("in the section");
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(
        *lock.lock(),
        1,
        "the change stays, and the lock is not poisoned"
    );
}

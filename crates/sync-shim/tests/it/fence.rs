//! That no store is missed is a model's business, and the kernel's. Here: whether it can be asked.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

use sync_shim::fence;
use testkit::{LIMIT, watchdog};

#[test]
fn the_heavy_half_can_be_had_before_and_after_a_light_one() {
    assert!(fence::heavy());
    fence::light();
    assert!(fence::heavy());
}

/// Waits for the other thread of a pair to come to this round too.
fn meet(mine: &AtomicU32, other: &AtomicU32, round: u32) {
    mine.store(round, Release);
    let mut looks = 0_u32;
    while other.load(Acquire) < round {
        looks += 1;
        if looks.is_multiple_of(256) {
            thread::yield_now();
        }
    }
}

/// A test of the machine itself. A heavy half that is only this thread's own fence fails it, if two
/// cores are free to run both threads at once.
#[test]
fn two_threads_that_store_and_look_never_both_miss_the_other() {
    const ROUNDS: u32 = 3_000;
    watchdog(LIMIT, || {
        let rounds = [(); 2].map(|()| Pair::default());
        let words: Vec<Pair> = (0..ROUNDS).map(|_| Pair::default()).collect();
        let look = |me: usize, fence: fn()| {
            let seen = (1..).zip(&words).map(|(round, Pair(words))| {
                // Now both cores have the line, so that a look is quick and a store is not.
                assert_eq!(words[me].load(Relaxed), 0);
                meet(&rounds[me].0[0], &rounds[1 - me].0[0], round);
                words[me].store(1, Relaxed);
                fence();
                words[1 - me].load(Relaxed)
            });
            seen.collect::<Vec<_>>()
        };
        let (light, heavy) = thread::scope(|scope| {
            let light = scope.spawn(|| look(0, fence::light));
            let heavy = look(1, || assert!(fence::heavy()));
            (light.join().expect("the other thread ends well"), heavy)
        });
        let both = light.iter().zip(&heavy).filter(|seen| *seen == (&0, &0));
        assert_eq!(both.count(), 0, "rounds in which both missed");
    });
}

/// Two words on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Pair([AtomicU32; 2]);

/// What a kernel does in a child is what counts after a fork.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_has_the_heavy_half_too() {
    fence::light();
    // SAFETY: the child calls only what is allowed after a fork of many threads, see below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = i32::from(!fence::heavy()); // One system call.
        // SAFETY: it ends the process, whatever state that is in.
        unsafe { libc::_exit(status) };
    }
    assert!(child > 0, "no child can be had");
    let mut status = 0;
    // SAFETY: the status lives as long as the call.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(ended, child);
    assert_eq!(libc::WEXITSTATUS(status), 0);
    assert!(libc::WIFEXITED(status));
}

//! A process that gives up the right to ask the kernel for a fence, when it has locks already.

#![cfg(target_os = "linux")]

use std::hint::black_box;
use std::thread;

use backoff_spinlock::SpinLock;
use testkit::{LIMIT, in_child, watchdog};

/// From here on this thread, and those it starts, are refused `membarrier`.
fn forbid_membarrier() {
    let statement = |code: u32, jt, jf, k| libc::sock_filter {
        code: u16::try_from(code).expect("codes are small"),
        jt,
        jf,
        k,
    };
    let number = u32::try_from(libc::SYS_membarrier).expect("system calls have small numbers");
    let refused = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).expect("errors are small");
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_mut_ptr(),
    };
    let (privileges, mode) = (libc::PR_SET_NO_NEW_PRIVS, libc::SECCOMP_MODE_FILTER);
    // SAFETY: it takes numbers only.
    assert_eq!(unsafe { libc::prctl(privileges, 1, 0, 0, 0) }, 0);
    // SAFETY: the program and its filter outlive the call, which copies them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(set, 0);
}

#[test]
fn waiters_that_are_refused_the_fence_get_the_lock_all_the_same() {
    let name = "sandbox::waiters_that_are_refused_the_fence_get_the_lock_all_the_same";
    let ended = in_child(name, || {
        watchdog(LIMIT, || {
            let lock = SpinLock::new(0);
            lock.with(|count| *count += 1); // From here on unlocking is a plain store.
            forbid_membarrier();
            assert!(!sync_shim::fence::heavy(), "it was refused");
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..20 {
                            lock.with(|count| {
                                (0..20_000).for_each(|step| _ = black_box(step));
                                *count += 1;
                            });
                        }
                    });
                }
            });
            assert_eq!(lock.into_inner(), 81);
        });
    });
    assert!(ended.is_ok(), "{ended:?}");
}

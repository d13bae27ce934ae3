//! Processes: what a fork finds, and how one ends.
#![cfg(unix)]

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Waker};

use pool_core::{JoinError, Pool};
use scheduled_pool::{ScheduleError, ScheduledPool};

use crate::support::{SECOND, secs};

/// Runs `child` in a fork of this process; whether it returned `true`.
fn in_fork(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the process is a test's own child, with few threads, and the fork makes no use of
    // what they may have left locked.
    match unsafe { libc::fork() } {
        -1 => panic!("the process cannot fork"),
        0 => {
            let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            let code = i32::from(!passed.unwrap_or(false));
            // SAFETY: ends the process at once, without its destructors.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for our own child.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            waited == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

#[test]
fn in_a_forked_child_calls_say_that_the_threads_are_not_there() {
    let ended = testkit::in_child(
        "process::in_a_forked_child_calls_say_that_the_threads_are_not_there",
        || {
            let pool = Pool::builder().capacity(1).build().unwrap();
            let scheduled = ScheduledPool::new(pool);
            let pending = scheduled.spawn_after(secs(3600), || ()).unwrap();
            assert!(in_fork(|| {
                let refused = scheduled.spawn_after(SECOND, || ());
                assert!(matches!(refused, Err(ScheduleError::Forked(_))));
                assert_eq!(scheduled.wait_released(), Err(pool_core::WaitError::Forked));
                assert!(!pending.cancel());
                assert!(!scheduled.release());
                assert_eq!(scheduled.release_now().len(), 0);
                assert_eq!(scheduled.wait_idle(), Err(pool_core::WaitError::Forked));
                let rest = testkit::block_on(scheduled.wait_idle_async());
                assert_eq!(rest, Err(pool_core::WaitError::Forked));
                let graced = scheduled.release_with_grace(SECOND).unwrap_err();
                assert_eq!(graced, pool_core::WaitError::Forked);
                let graced = testkit::block_on(scheduled.release_with_grace_async(SECOND));
                assert_eq!(graced.unwrap_err(), pool_core::WaitError::Forked);
                assert!(matches!(pending.join(), Err(JoinError::Forked)));
                drop(scheduled);
                true
            }));
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn a_handle_in_a_forked_child_takes_no_lock_that_the_fork_may_have_left_held() {
    let ended = testkit::in_child(
        "process::a_handle_in_a_forked_child_takes_no_lock_that_the_fork_may_have_left_held",
        || {
            let pool = Pool::builder().capacity(1).build().unwrap();
            let scheduled = ScheduledPool::new(pool);
            let series = scheduled.spawn_at_fixed_rate(secs(3600), SECOND, || ());
            let series = series.unwrap();
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                // Each holds the handle's lock again and again.
                for _ in 0..3 {
                    scope.spawn(|| {
                        while !over.load(SeqCst) {
                            assert_eq!(series.runs(), 0);
                        }
                    });
                }
                let all = (0..40).all(|round| {
                    in_fork(|| {
                        // SAFETY: takes a number only. The signal is the copy's watchdog.
                        unsafe { libc::alarm(20) };
                        assert!(series.is_finished());
                        assert!(series.next_due().is_none() && !series.cancel());
                        // SAFETY: the copy ends without dropping the original.
                        let mut own = unsafe { std::ptr::read(&raw const series) };
                        match round % 4 {
                            0 => matches!(own.join(), Err(JoinError::Forked)),
                            1 => matches!(own.try_join(), Ok(Err(JoinError::Forked))),
                            2 => {
                                let mut context = Context::from_waker(Waker::noop());
                                Pin::new(&mut own).poll(&mut context).is_ready()
                            }
                            _ => {
                                drop(own);
                                true
                            }
                        }
                    })
                });
                over.store(true, SeqCst);
                assert!(all);
            });
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn a_process_ends_though_schedules_are_pending() {
    let ended = testkit::in_child(
        "process::a_process_ends_though_schedules_are_pending",
        || {
            let pool = Pool::builder().capacity(1).build().unwrap();
            let scheduled = ScheduledPool::new(pool);
            drop(scheduled.spawn_after(secs(3600), || ()));
            std::mem::forget(scheduled);
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

//! Process exit, and locks held during a fork.
#![cfg(unix)]

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Waker};

use pool_core::{JoinError, Pool};
use scheduled_pool::ScheduledPool;

use crate::support::{SECOND, secs};

#[testkit::test]
fn a_handle_in_a_forked_child_takes_no_lock_of_the_parent() {
    let ended = testkit::in_child(
        "process::a_handle_in_a_forked_child_takes_no_lock_of_the_parent",
        || {
            let pool = Pool::builder().capacity(1).build().unwrap();
            let scheduled = ScheduledPool::new(pool);
            let series = scheduled.spawn_at_fixed_rate(secs(3600), SECOND, || ());
            let series = series.unwrap();
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                // Each thread locks the handle repeatedly.
                for _ in 0..3 {
                    scope.spawn(|| {
                        while !over.load(SeqCst) {
                            assert_eq!(series.runs(), 0);
                        }
                    });
                }
                let all = (0..40).all(|round| {
                    let ended = testkit::in_fork(|| {
                        assert!(series.is_finished());
                        assert!(!series.cancel());
                        // SAFETY: the copy ends without dropping the original.
                        let mut own = unsafe { std::ptr::read(&raw const series) };
                        let is_told = match round % 4 {
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
                        };
                        assert!(is_told);
                    });
                    ended.is_ok()
                });
                over.store(true, SeqCst);
                assert!(all);
            });
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

#[testkit::test]
fn a_process_exits_with_pending_schedules() {
    let ended = testkit::in_child("process::a_process_exits_with_pending_schedules", || {
        let pool = Pool::builder().capacity(1).build().unwrap();
        let scheduled = ScheduledPool::new(pool);
        drop(scheduled.spawn_after(secs(3600), || ()));
        std::mem::forget(scheduled);
    });
    assert!(ended.is_ok(), "{ended:?}");
}

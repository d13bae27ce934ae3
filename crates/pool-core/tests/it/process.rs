//! Pools at the ends of processes, and in forked ones.

use std::sync::OnceLock;

use pool_core::{JoinError, Pool, SubmitError, WaitError};
use testkit::{Gate, in_child};

use crate::support::{bounded, hold, pool};

#[test]
fn a_process_with_a_pool_in_a_static_ends() {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let test = "process::a_process_with_a_pool_in_a_static_ends";
    let ended = in_child(test, || {
        let pool = POOL.get_or_init(|| pool(2));
        pool.spawn(|| ()).unwrap().join().unwrap();
        hold(pool, 1); // A worker is busy, the other idle.
    });
    ended.unwrap();
}

#[cfg(unix)]
#[test]
fn a_worker_that_overflows_its_stack_ends_the_process_and_does_not_hang() {
    fn deeper(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 512]);
        if frame[0] == u64::MAX {
            return 0;
        }
        deeper(depth + 1) + frame[511]
    }
    let test = "process::a_worker_that_overflows_its_stack_ends_the_process_and_does_not_hang";
    let ended = in_child(test, || {
        let handle = pool(1).spawn(|| deeper(0)).unwrap();
        let _ = handle.join();
    });
    let output = ended.unwrap_err();
    assert!(output.status.code().is_none(), "by a signal: {output:?}");
}

#[cfg(unix)]
#[test]
fn a_forked_child_is_told_that_the_workers_stayed_behind() {
    let test = "process::a_forked_child_is_told_that_the_workers_stayed_behind";
    let ended = in_child(test, || {
        bounded(|| {
            let pool = Pool::builder()
                .capacity(2)
                .queue_depth(2)
                .keep_alive(None)
                .build()
                .unwrap();
            let gate = Gate::new();
            let held = gate.clone();
            let mut handle = pool.spawn(move || held.wait()).unwrap();
            gate.wait_for_arrivals(1);
            // SAFETY: the child touches nothing of other threads but the pool under test, whose
            // lock is free (its one worker waits at the gate), and leaves by `_exit`.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Forked(_))));
                    assert!(matches!(pool.try_spawn(|| ()), Err(SubmitError::Forked(_))));
                    let batch = pool.submit_batch([|| (), || ()]).unwrap_err();
                    assert!(matches!(batch.reason(), SubmitError::Forked(())));
                    assert_eq!((batch.submitted(), batch.into_refused().count()), (0, 2));
                    let entering = testkit::block_on(pool.submit_async(|| ()));
                    assert!(matches!(entering, Err(SubmitError::Forked(_))));
                    assert_eq!(pool.wait_idle(), Err(WaitError::Forked));
                    assert_eq!(pool.wait_released(), Err(WaitError::Forked));
                    let rest = testkit::block_on(pool.wait_idle_async());
                    assert_eq!(rest, Err(WaitError::Forked));
                    let end = testkit::block_on(pool.release_async(None));
                    assert_eq!(end, Err(WaitError::Forked));
                    let minute = std::time::Duration::from_secs(60);
                    assert_eq!(pool.release_with_grace(minute), Err(WaitError::Forked));
                    let end = testkit::block_on(pool.release_with_grace_async(minute));
                    assert_eq!(end, Err(WaitError::Forked));
                    let polled = crate::support::poll(&mut handle);
                    assert!(matches!(
                        polled,
                        std::task::Poll::Ready(Err(JoinError::Forked))
                    ));
                    assert!(matches!(handle.join(), Err(JoinError::Forked)));
                    // A pool of its own works.
                    let own = crate::support::pool(1);
                    assert_eq!(own.spawn(|| 2).unwrap().join().unwrap(), 2);
                    drop((own, pool));
                }));
                // SAFETY: ends the process and nothing else.
                unsafe { libc::_exit(i32::from(told.is_err())) };
            }
            let mut status = -1;
            // SAFETY: `status` is ours to write.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((waited, status), (child, 0));
            gate.open();
            handle.join().unwrap();
            pool.spawn(|| ()).unwrap().join().unwrap();
        });
    });
    ended.unwrap();
}

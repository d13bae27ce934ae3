//! Queues in a forked process: what would wait there for threads that stayed behind says so.

use std::panic::{AssertUnwindSafe, catch_unwind};

use dedup_queue::{DedupDelayQueue, GetError, Outcome, Pending, parallelize_until};
use testkit::in_child;

use crate::support::{MS, poll};

/// Runs it in a fork of a process of its own, where it must return. A hang is ended by the system's alarm.
fn forked(test: &str, run: impl FnOnce()) {
    const LIMIT: libc::c_uint = 60;
    let ended = in_child(test, || {
        // SAFETY: the child touches nothing of other threads but what is under test, whose locks are free,
        // and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: it ends this process, later.
            unsafe { libc::alarm(LIMIT) };
            let ran = catch_unwind(AssertUnwindSafe(run));
            // SAFETY: ends the process and nothing else.
            unsafe { libc::_exit(i32::from(ran.is_err())) };
        }
        let mut status = -1;
        // SAFETY: `status` is ours to write.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
    });
    ended.unwrap();
}

fn queue() -> DedupDelayQueue<u32> {
    let queue = DedupDelayQueue::<u32>::new();
    queue.add(1).unwrap();
    queue.add_after(2, 1_000_000 * MS).unwrap();
    queue
}

#[test]
fn a_get_in_a_forked_process_takes_what_is_ready_and_does_not_wait() {
    let queue = queue();
    forked(
        "forked::a_get_in_a_forked_process_takes_what_is_ready_and_does_not_wait",
        || {
            let held = queue.get().unwrap();
            assert!(matches!(queue.get(), Err(GetError::Forked)));
            assert!(matches!(queue.get_timeout(MS), Err(GetError::Forked)));
            let two = std::num::NonZeroUsize::MIN;
            assert!(matches!(queue.get_batch(two), Err(GetError::Forked)));
            assert!(matches!(queue.try_get(), Err(GetError::Empty)));
            let got = poll(&mut queue.get_async());
            assert!(matches!(got, std::task::Poll::Ready(Err(GetError::Forked))));
            #[cfg(feature = "stream")]
            {
                use futures_lite::StreamExt;
                let mut stream = queue.stream();
                let mut next = || testkit::block_on(stream.next());
                assert!(matches!(next(), Some(Err(GetError::Forked))));
                assert!(next().is_none(), "a loop that skips errors ends");
            }
            drop(held);
            queue.shut_down();
            assert!(matches!(queue.get(), Err(GetError::Closed)));
        },
    );
}

#[test]
fn a_drain_in_a_forked_process_returns_what_is_left_and_does_not_wait() {
    let queue = queue();
    let held = queue.get().unwrap();
    forked(
        "forked::a_drain_in_a_forked_process_returns_what_is_left_and_does_not_wait",
        || {
            assert!(!queue.wait_idle());
            assert!(!queue.wait_idle_timeout(MS));
            assert!(matches!(
                poll(&mut queue.wait_idle_async()),
                std::task::Poll::Ready(false)
            ));
            queue.add(1).unwrap();
            let drained = queue.drain();
            assert_eq!(drained.outcome, Outcome::Forked);
            let left = drained.leftovers.unwrap();
            assert_eq!(
                (left.held[0].key, left.held[0].pending),
                (1, Some(Pending::Dirty))
            );
            assert_eq!(left.delayed[0].key, 2);
            let std::task::Poll::Ready(again) = poll(&mut queue.drain_async()) else {
                panic!("it waits")
            };
            assert_eq!(again.outcome, Outcome::Forked);
        },
    );
    held.done();
}

#[test]
fn pieces_in_a_forked_process_are_all_done() {
    forked("forked::pieces_in_a_forked_process_are_all_done", || {
        let three = std::num::NonZeroUsize::new(3).unwrap();
        assert_eq!(parallelize_until(three, 100, || false, |_| {}).done, 100);
    });
}

#[cfg(feature = "pool")]
#[test]
fn pieces_on_a_pool_that_stayed_behind_are_done_by_the_caller() {
    let pool = pool_core::Pool::builder().capacity(2).build().unwrap();
    pool.spawn(|| ()).unwrap().join().unwrap();
    let three = std::num::NonZeroUsize::new(3).unwrap();
    forked(
        "forked::pieces_on_a_pool_that_stayed_behind_are_done_by_the_caller",
        || {
            let report = dedup_queue::parallelize_until_on(&pool, three, 100, || false, |_| {});
            assert_eq!(report.done, 100);
            let failed = dedup_queue::parallelize_until_on(
                &pool,
                three,
                100,
                || false,
                |piece| {
                    assert_ne!(piece, 7, "this one");
                },
            );
            assert_eq!(failed.panics.len(), 1);
        },
    );
}

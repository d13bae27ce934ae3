//! Permits and the end of a pool: workers kept for them, releases, reboots, last handles, forks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use pool_core::{DropPolicy, ManualClock, Permit, Pool, WaitError};
use testkit::{Gate, block_on};

use crate::support::{Journal, end, hold, poll, pool, until};

const SECOND: Duration = Duration::from_secs(1);

#[testkit::test]
fn a_permit_stays_valid_after_a_release_and_delays_the_end() {
    let pool = pool(2);
    let permits = [pool.reserve().unwrap(), pool.reserve().unwrap()];
    pool.release();
    for permit in permits {
        let waited = pool.wait_released_timeout(Duration::ZERO);
        assert_eq!(waited, Err(WaitError::TimedOut));
        assert_eq!(permit.spawn(|| 8).join().unwrap(), 8);
    }
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.reserved, stats.live, stats.completed), (0, 0, 2));
}

#[testkit::test]
fn the_last_permit_dropped_after_a_release_ends_the_pool() {
    let pool = pool(2);
    let permit = pool.reserve().unwrap();
    pool.release();
    let waiter = {
        let pool = pool.clone();
        thread::spawn(move || pool.wait_released())
    };
    assert_eq!(pool.running(), 1, "it stays for the permit");
    drop(permit);
    waiter.join().unwrap().unwrap();
    assert_eq!(pool.running(), 0);
}

/// A released pool whose only worker stays beyond its keep-alive because of a permit. Further
/// threads are refused. The journal counts how often a worker was about to leave.
fn kept_by_a_permit() -> (Pool, Permit<pool_core::Closures>, Journal<()>) {
    let clock = ManualClock::new();
    let (refuses, stops) = (Arc::new(AtomicBool::new(false)), Journal::new());
    let (asked, log) = (Arc::clone(&refuses), stops.clone());
    let pool = Pool::builder()
        .capacity(4)
        .keep_alive(SECOND)
        .clock(clock.clone())
        .stop_hook(move || log.write(()))
        .thread_gate(move || {
            if asked.load(SeqCst) {
                Err(io::Error::other("no more threads"))
            } else {
                Ok(())
            }
        });
    let pool = pool.build().unwrap();
    let gate = hold(&pool, 3);
    let permit = pool.reserve().unwrap();
    refuses.store(true, SeqCst);
    gate.open();
    pool.wait_idle().unwrap();
    until(|| {
        clock.advance(SECOND); // Until the other workers have parked and expired.
        pool.running() == 1
    });
    pool.release();
    assert_eq!((pool.running(), stops.len()), (1, 2));
    (pool, permit, stops)
}

#[testkit::test]
fn a_permit_used_after_a_release_finds_the_kept_worker_although_threads_are_refused() {
    let (pool, permit, stops) = kept_by_a_permit();
    assert_eq!(permit.spawn(|| 9).join().unwrap(), 9);
    pool.wait_released().unwrap();
    assert_eq!(stops.len(), 3, "each worker left once");
    let stats = pool.stats();
    assert_eq!((stats.threads_started, stats.thread_failures), (3, 0));
}

#[testkit::test]
fn a_worker_that_ends_a_task_of_a_released_pool_stays_for_a_second_permit() {
    let stops = Journal::new();
    let log = stops.clone();
    let pool = Pool::builder().capacity(2).keep_alive(None);
    let pool = pool.stop_hook(move || log.write(())).build().unwrap();
    let (first, second) = (pool.reserve().unwrap(), pool.reserve().unwrap());
    pool.release();
    first.spawn(|| ()).join().unwrap();
    until(|| pool.idle() == 1);
    assert_eq!((pool.running(), stops.len()), (1, 0));
    second.spawn(|| ()).join().unwrap();
    pool.wait_released().unwrap();
    assert_eq!(stops.len(), 1);
}

#[testkit::test]
fn a_worker_kept_for_a_permit_ends_when_it_is_dropped_after_a_release() {
    let (pool, permit, stops) = kept_by_a_permit();
    drop(permit);
    pool.wait_released().unwrap();
    assert_eq!(stops.len(), 3, "each worker left once");
}

#[testkit::test]
fn a_worker_kept_for_a_permit_expires_after_its_drop() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(1).keep_alive(SECOND);
    let pool = pool.clock(clock.clone()).build().unwrap();
    for used in [false, true] {
        let permit = pool.reserve().unwrap();
        until(|| pool.idle() == 1);
        clock.advance(3 * SECOND);
        until(|| clock.sleepers() == 0); // It parks without a time limit.
        assert_eq!((pool.running(), pool.idle()), (1, 1));
        if used {
            permit.spawn(|| ()).join().unwrap();
        } else {
            drop(permit);
        }
        until(|| {
            clock.advance(SECOND);
            pool.running() == 0
        });
    }
    end(&pool);
}

#[testkit::test]
fn release_now_removes_tasks_and_leaves_permits() {
    let pool = Pool::builder().capacity(1).queue_depth(2).build().unwrap();
    let gate = hold(&pool, 1);
    let taken_out = pool.spawn(|| 1).unwrap();
    let permit = pool.reserve().unwrap();
    assert_eq!(pool.release_now(), 1);
    assert!(taken_out.join().is_err());
    let handle = permit.spawn(|| 2);
    gate.open();
    assert_eq!(handle.join().unwrap(), 2);
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_permit_of_an_earlier_generation_holds_room_in_the_next() {
    let pool = pool(1);
    let permit = pool.reserve().unwrap();
    pool.release();
    pool.reboot();
    assert!(pool.try_submit(|| ()).is_err());
    assert_eq!(permit.spawn(|| 3).join().unwrap(), 3);
    pool.try_submit(|| ()).unwrap();
    end(&pool);
}

#[testkit::test]
fn permits_without_tasks_do_not_make_a_pool_busy() {
    let pool = pool(1);
    let permit = pool.reserve().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((pool.in_flight(), pool.stats().reserved), (0, 1));
    drop(permit);
    end(&pool);
}

#[testkit::test]
fn a_worker_that_holds_a_permit_is_refused_a_wait_for_the_end() {
    let pool = pool(2);
    let inner = pool.clone();
    let waits = pool.spawn(move || {
        let permit = inner.reserve().unwrap();
        inner.release();
        let waits = (inner.wait_idle(), inner.wait_released());
        permit.submit(|| ());
        waits
    });
    let refused = Err(WaitError::WouldDeadlock);
    assert_eq!(waits.unwrap().join().unwrap(), (refused, refused));
    pool.wait_released().unwrap();
}

/// The fields of a typical service.
struct PoolFirst {
    _pool: Pool,
    _permit: Permit<pool_core::Closures>,
}

#[testkit::test]
fn a_value_with_a_pool_and_its_permit_is_dropped_in_any_order_under_each_policy() {
    for policy in [DropPolicy::Drain, DropPolicy::Join, DropPolicy::Discard] {
        let journal = Journal::new();
        let log = journal.clone();
        let pool = Pool::builder().capacity(1).drop_policy(policy);
        let pool = pool.stop_hook(move || log.write("stop")).build().unwrap();
        let permit = pool.reserve().unwrap();
        drop(PoolFirst {
            _pool: pool,
            _permit: permit,
        });
        if policy == DropPolicy::Join {
            assert_eq!(journal.len(), 1, "the drop waited for it");
        }
        until(|| journal.len() == 1);
    }
}

#[testkit::test]
fn a_future_that_waits_for_a_permit_keeps_the_pool_open() {
    let pool = Pool::builder().capacity(1).drop_policy(DropPolicy::Join);
    let pool = pool.build().unwrap();
    let weak = pool.downgrade();
    let permit = pool.reserve().unwrap();
    let mut future = pool.reserve_async();
    drop(pool);
    assert!(poll(&mut future).is_pending());
    drop(permit);
    let permit = block_on(&mut future).unwrap();
    drop(future);
    assert!(weak.upgrade().is_some_and(|pool| !pool.is_released()));
    permit.submit(|| ()); // The drop of the last handle waits for the permit's task to end.
    assert!(weak.upgrade().is_none());
}

#[testkit::test]
fn a_leaving_worker_stays_for_a_permit_granted_meanwhile() {
    let clock = ManualClock::new();
    let stopping = Gate::new();
    let wait = stopping.clone();
    let pool = Pool::builder()
        .capacity(1)
        .keep_alive(SECOND)
        .clock(clock.clone())
        .stop_hook(move || wait.wait());
    let pool = pool.build().unwrap();
    pool.spawn(|| ()).unwrap().join().unwrap();
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    stopping.wait_for_arrivals(1);
    let permit = pool.reserve().unwrap(); // The worker is leaving, and still live.
    stopping.open();
    until(|| clock.sleepers() == 0 && pool.idle() == 1);
    assert_eq!(permit.spawn(|| 1).join().unwrap(), 1);
    let stats = pool.stats();
    assert_eq!((stats.threads_started, stats.threads_retired), (1, 0));
    end(&pool);
}

#[cfg(unix)]
#[testkit::test]
fn a_permit_in_a_forked_child_has_no_effect_and_does_not_hang() {
    use pool_core::{JoinError, SubmitError};
    let test = "permits_end::a_permit_in_a_forked_child_has_no_effect_and_does_not_hang";
    let ended = testkit::in_child(test, || {
        let pool = Pool::builder().capacity(4).keep_alive(None).build();
        let pool = pool.unwrap();
        let gate = hold(&pool, 1); // The only worker waits at the gate, so it holds no lock.
        let [used, spawned, dropped] = [(); 3].map(|()| pool.reserve().unwrap());
        let mut waiting = pool.reserve_async();
        assert!(crate::support::poll(&mut waiting).is_pending());
        // SAFETY: the child uses nothing of other threads except the pool under test, whose lock is
        // free because its one worker waits at the gate. The child leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                assert!(matches!(pool.reserve(), Err(SubmitError::Forked(()))));
                let polled = crate::support::poll(&mut waiting);
                assert!(matches!(
                    polled,
                    std::task::Poll::Ready(Err(SubmitError::Forked(())))
                ));
                used.submit(|| unreachable!("no worker is here"));
                let joined = spawned.spawn(|| ()).join();
                assert!(matches!(joined, Err(JoinError::Forked)));
                drop((dropped, waiting, pool));
            }));
            // SAFETY: `_exit` has no preconditions.
            unsafe { libc::_exit(i32::from(told.is_err())) };
        }
        let mut status = -1;
        // SAFETY: `status` is a valid, exclusive reference.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
        gate.open();
        drop((used, spawned, dropped, waiting));
        end(&pool);
    });
    ended.unwrap();
}

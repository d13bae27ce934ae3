//! A pool of futures in a forked child: no call waits there for workers or threads of the parent.
#![expect(
    clippy::needless_pass_by_value,
    reason = "an answer is looked at where the call is made"
)]

use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_pool::{
    AsyncPool, Futures, JoinError, JoinHandle, Permit, SubmitError, WaitError, sleep_until,
    timeout, yield_now,
};
use testkit::{ForkCase, check_in_forks, fork_cases, in_child, ready};

use super::pool;

type Waiting = Pin<Box<dyn Future<Output = bool>>>;

/// The state that a child inherits. All tasks wait for ever, so no lock is held at a fork.
struct Inherited {
    pool: AsyncPool,
    later: Instant,
    handle: Option<JoinHandle<()>>,
    permit: Option<Permit<Futures>>,
    /// Waits that the parent has polled.
    waits: Vec<Waiting>,
}

fn refused<V, T>(answer: Result<V, SubmitError<T>>) -> bool {
    matches!(answer, Err(SubmitError::Forked(_)))
}

fn lost<V>(answer: Result<V, JoinError>) -> bool {
    matches!(answer, Err(JoinError::Forked))
}

fn forked<V>(answer: Result<V, WaitError>) -> bool {
    matches!(answer, Err(WaitError::Forked))
}

const CALLS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "AsyncWorkerPool::submit" => refused(it.pool.submit(async {}));
    "AsyncWorkerPool::try_submit" => refused(it.pool.try_submit(async {}));
    "AsyncWorkerPool::submit_timeout" => refused(it.pool.submit_timeout(async {}, it.later));
    "AsyncWorkerPool::submit_async" => refused(ready(it.pool.submit_async(async {})));
    "AsyncWorkerPool::spawn" => refused(it.pool.spawn(async {}));
    "AsyncWorkerPool::try_spawn" => refused(it.pool.try_spawn(async {}));
    "AsyncWorkerPool::spawn_timeout" => refused(it.pool.spawn_timeout(async {}, it.later));
    "AsyncWorkerPool::spawn_async" => refused(ready(it.pool.spawn_async(async {})));
    "AsyncWorkerPool::reserve" => refused(it.pool.reserve());
    "AsyncWorkerPool::try_reserve" => refused(it.pool.try_reserve());
    "AsyncWorkerPool::reserve_timeout" => refused(it.pool.reserve_timeout(it.later));
    "AsyncWorkerPool::reserve_async" => refused(ready(it.pool.reserve_async()));
    "AsyncWorkerPool::wait_idle" => forked(it.pool.wait_idle());
    "AsyncWorkerPool::wait_idle_timeout" => forked(it.pool.wait_idle_timeout(it.later));
    "AsyncWorkerPool::wait_idle_async" => forked(ready(it.pool.wait_idle_async()));
    "AsyncWorkerPool::wait_released" => forked(it.pool.wait_released());
    "AsyncWorkerPool::wait_released_timeout" => forked(it.pool.wait_released_timeout(it.later));
    "AsyncWorkerPool::wait_released_async" => forked(ready(it.pool.wait_released_async()));
    "AsyncWorkerPool::reboot" => it.pool.reboot().is_ok_and(|opened| !opened);
    "AsyncWorkerPool::release" => !it.pool.release();
    "AsyncWorkerPool::release_now" => { it.pool.release_now(); true };
    "Permit::submit" => { it.permit.take().expect("it is there").submit(async {}); true };
    "Permit::spawn" => lost(it.permit.take().expect("it is there").spawn(async {}).join());
    "Permit::drop" => { drop(it.permit.take()); true };
    "JoinHandle::join" => lost(it.handle.take().expect("it is there").join());
    "JoinHandle::join_timeout" => {
        it.handle.take().expect("it is there").join_timeout(it.later).is_ok_and(lost)
    };
    "JoinHandle::poll" => lost(ready(it.handle.take().expect("it is there")));
    "JoinHandle::cancel_on_drop" => {
        drop(it.handle.take().expect("it is there").cancel_on_drop());
        true
    };
    "JoinHandle::drop" => { drop(it.handle.take()); true };
    "sleep_until" => {
        let mut sleep = sleep_until(it.later);
        Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    };
    "timeout" => ready(Box::pin(timeout(it.later, async { 3 }))) == Ok(3);
    "yield_now" => {
        let mut yields = Box::pin(yield_now());
        yields.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    };
    // Waits that the parent has begun end with an error in the child.
    "waits that began before the fork" => {
        it.waits.iter_mut().all(|wait| {
            let mut context = Context::from_waker(Waker::noop());
            matches!(wait.as_mut().poll(&mut context), Poll::Ready(true))
        })
    };
    "drop of waits that began before the fork" => { it.waits.clear(); true };
};

#[test]
fn no_call_of_a_pool_of_futures_waits_in_a_forked_child() {
    let ended = in_child(
        "forks::no_call_of_a_pool_of_futures_waits_in_a_forked_child",
        || {
            let pool = pool(2, 2);
            let handle = pool.spawn(pending::<()>()).unwrap();
            let permit = pool.reserve().unwrap();
            let mut waits: Vec<Waiting> = Vec::new();
            let (submits, reserves) = (pool.submit_async(async {}), pool.reserve_async());
            let (idle, ended) = (pool.wait_idle_async(), pool.wait_released_async());
            waits.push(Box::pin(async { refused(submits.await) }));
            waits.push(Box::pin(async { refused(reserves.await) }));
            waits.push(Box::pin(async { forked(idle.await) }));
            waits.push(Box::pin(async { forked(ended.await) }));
            for wait in &mut waits {
                let mut context = Context::from_waker(Waker::noop());
                assert!(wait.as_mut().poll(&mut context).is_pending());
            }
            let mut inherited = Inherited {
                pool,
                later: Instant::now() + Duration::from_secs(3_600),
                handle: Some(handle),
                permit: Some(permit),
                waits,
            };
            check_in_forks(&mut inherited, CALLS);
            // The parent's tasks go on.
            inherited.waits.clear();
            drop(inherited.permit);
            assert_eq!(
                inherited.pool.spawn(async { 4 }).unwrap().join().unwrap(),
                4
            );
            drop(inherited.handle.map(JoinHandle::cancel_on_drop));
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

//! Pools in a forked child: no call waits there for workers or threads of the parent.
#![expect(
    clippy::needless_pass_by_value,
    reason = "each result is checked at its call"
)]

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use pool_core::{
    BatchError, CancelToken, Cancelled, Closures, JoinError, JoinHandle, ManualClock, OnFull,
    Permit, Pool, Reserve, ReserveFuture, Spawn, Submit, SubmitError, TimeoutExt, WaitError,
    Workers, blocking,
};
use testkit::{ForkCase, Gate, block_on, check_in_forks, fork_cases, in_child, in_fork, ready};

use crate::support::{hold, poll, pool, queueing};

const SECOND: Duration = Duration::from_secs(1);
const STAYED: Result<(), WaitError> = Err(WaitError::Forked);

type Started<T> = Pin<Box<dyn Future<Output = T>>>;

/// The pools that a child inherits. All workers wait at gates, so no lock is held at a fork.
struct Inherited {
    /// Its worker is busy and its queue is full.
    full: Pool,
    /// Its one worker is busy, and more workers may be started.
    open: Pool,
    later: Instant,
    /// The handle of a running task.
    handle: Option<JoinHandle<()>>,
    permits: Vec<Permit<Closures>>,
    reserving: ReserveFuture<Closures>,
    submitting: Started<Result<(), SubmitError>>,
    idle: Started<Result<(), WaitError>>,
    released: Started<Result<(), WaitError>>,
    token: CancelToken,
    cancelled: Cancelled,
}

fn refused<V, T>(answer: Result<V, SubmitError<T>>) -> bool {
    matches!(answer, Err(SubmitError::Forked(_)))
}

fn batch_refused<I: Iterator>(answer: Result<usize, BatchError<I>>) -> bool {
    answer.is_err_and(|error| {
        let is_forked = matches!(error.reason(), SubmitError::Forked(()));
        is_forked && error.submitted() == 0 && error.into_refused().count() == 2
    })
}

fn lost<V>(answer: Result<V, JoinError>) -> bool {
    matches!(answer, Err(JoinError::Forked))
}

fn wait() -> OnFull {
    OnFull::Wait(None)
}

const POOLS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "WorkerPool::submit" => refused(it.full.submit(|| ())) && refused(it.open.submit(|| ()));
    "WorkerPool::submit_timeout" => refused(it.full.submit_timeout(|| (), SECOND));
    "WorkerPool::submit_timeout" => refused(it.full.submit_timeout(|| (), it.later));
    "WorkerPool::submit_with" => refused(it.full.submit_with(|| (), wait()));
    "WorkerPool::submit_async" => refused(ready(it.full.submit_async(|| ())));
    "WorkerPool::submit_async" => refused(ready(&mut it.submitting));
    "WorkerPool::submit_batch_timeout" => batch_refused(it.full.submit_batch_timeout([|| (), || ()], SECOND));
    "WorkerPool::submit_batch_async" => {
        batch_refused(ready(it.full.submit_batch_async([|| (), || ()])))
    };
    "WorkerPool::submit_batch" => batch_refused(it.full.submit_batch([|| (), || ()]));
    "WorkerPool::try_submit" => refused(it.full.try_submit(|| ()));
    "WorkerPool::try_submit_batch" => batch_refused(it.full.try_submit_batch([|| (), || ()]));
    "WorkerPool::spawn" => refused(it.full.spawn(|| ())) && refused(it.open.spawn(|| ()));
    "WorkerPool::spawn_timeout" => refused(it.full.spawn_timeout(|| (), SECOND));
    "WorkerPool::spawn_timeout" => refused(it.full.spawn_timeout(|| (), it.later));
    "WorkerPool::spawn_with" => refused(it.full.spawn_with(|| (), wait()));
    "WorkerPool::spawn_async" => refused(ready(it.full.spawn_async(|| ())));
    "WorkerPool::try_spawn" => refused(it.full.try_spawn(|| ()));
    "WorkerPool::reserve" => refused(it.full.reserve());
    "WorkerPool::reserve_timeout" => refused(it.full.reserve_timeout(SECOND));
    "WorkerPool::reserve_timeout" => refused(it.full.reserve_timeout(it.later));
    "WorkerPool::reserve_with" => refused(Reserve::reserve_with(&it.full, wait()));
    "WorkerPool::reserve_async" => refused(ready(it.full.reserve_async()));
    "WorkerPool::try_reserve" => refused(it.full.try_reserve());
    "ReserveFuture::poll" => refused(ready(&mut it.reserving));
    // Drops a future that waits for room.
    "WorkerPool::reserve_async" => { drop(std::mem::replace(&mut it.reserving, it.full.reserve_async())); true };
    // The permit's task is dropped unrun.
    "Permit::submit" => {
        it.permits.pop().expect("it is there").submit(|| unreachable!("no worker is here"));
        true
    };
    "Permit::spawn" => lost(it.permits.pop().expect("it is there").spawn(|| ()).join());
    "WorkerPool::wait_idle" => it.full.wait_idle() == STAYED;
    "WorkerPool::wait_idle_timeout" => it.full.wait_idle_timeout(SECOND) == STAYED;
    "WorkerPool::wait_idle_timeout" => it.full.wait_idle_timeout(it.later) == STAYED;
    "WorkerPool::wait_idle_async" => ready(it.full.wait_idle_async()) == STAYED;
    "WorkerPool::wait_idle_async" => ready(&mut it.idle) == STAYED;
    "WorkerPool::wait_released" => it.full.wait_released() == STAYED;
    "WorkerPool::wait_released_timeout" => it.full.wait_released_timeout(SECOND) == STAYED;
    "WorkerPool::wait_released_timeout" => it.full.wait_released_timeout(it.later) == STAYED;
    "WorkerPool::wait_released_async" => ready(it.full.wait_released_async()) == STAYED;
    "WorkerPool::wait_released_async" => ready(&mut it.released) == STAYED;
    // Nothing is left to release.
    "WorkerPool::release" | "Workers::release" => !it.full.release() && !Workers::release(&it.full);
    "WorkerPool::release_now" | "Workers::release_now" => {
        it.full.release_now() == 0 && Workers::release_now(&it.full) == 0
    };
    "WorkerPool::release_timeout" => it.full.release_timeout(SECOND) == STAYED;
    "WorkerPool::release_timeout" => it.full.release_timeout(it.later) == STAYED;
    "WorkerPool::release_async" => ready(it.full.release_async()) == STAYED;
    "WorkerPool::release_timeout_async" => ready(it.full.release_timeout_async(Duration::MAX)) == STAYED;
    "blocking" => blocking(|| 3) == 3;
    // The child can use a pool that it has built itself.
    "WorkerPool::wait_released" => {
        let own = pool(1);
        own.spawn(|| 2).is_ok_and(|two| two.join().is_ok()) && own.release_timeout(60 * SECOND).is_ok()
    };
};

const TRAITS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "Submit::submit" => refused(Submit::submit(&it.full, || ()));
    "TimeoutExt::submit_timeout" => refused(TimeoutExt::submit_timeout(&it.full, || (), SECOND));
    "TimeoutExt::submit_timeout" => refused(TimeoutExt::submit_timeout(&it.full, || (), it.later));
    "Submit::submit_with" => refused(Submit::submit_with(&it.full, || (), wait()));
    "Submit::submit_async" => refused(ready(Submit::submit_async(&it.full, || ())));
    "Submit::try_submit" => refused(Submit::try_submit(&it.full, || ()));
    "Spawn::spawn" => refused(Spawn::spawn(&it.full, || ()));
    "TimeoutExt::spawn_timeout" => refused(TimeoutExt::spawn_timeout(&it.full, || (), SECOND));
    "TimeoutExt::spawn_timeout" => refused(TimeoutExt::spawn_timeout(&it.full, || (), it.later));
    "Spawn::spawn_with" => refused(Spawn::spawn_with(&it.full, || (), wait()));
    "Spawn::spawn_async" => refused(ready(Spawn::spawn_async(&it.full, || ())));
    "Spawn::try_spawn" => refused(Spawn::try_spawn(&it.full, || ()));
    "Reserve::reserve" => refused(Reserve::reserve(&it.full));
    "Reserve::reserve_timeout" => refused(Reserve::reserve_timeout(&it.full, SECOND));
    "Reserve::reserve_timeout" => refused(Reserve::reserve_timeout(&it.full, it.later));
    "Reserve::reserve_with" => refused(Reserve::reserve_with(&it.full, wait()));
    "Reserve::reserve_async" => refused(ready(Reserve::reserve_async(&it.full)));
    "Reserve::try_reserve" => refused(Reserve::try_reserve(&it.full));
    "Workers::wait_idle" => Workers::wait_idle(&it.full) == STAYED;
    "TimeoutExt::wait_idle_timeout" => TimeoutExt::wait_idle_timeout(&it.full, SECOND) == STAYED;
    "TimeoutExt::wait_idle_timeout" => TimeoutExt::wait_idle_timeout(&it.full, it.later) == STAYED;
    "Workers::wait_idle_until" | "WorkerPool::wait_idle_until" => {
        Workers::wait_idle_until(&it.full, None) == STAYED
    };
    "Workers::wait_released" => Workers::wait_released(&it.full) == STAYED;
    "TimeoutExt::wait_released_timeout" => TimeoutExt::wait_released_timeout(&it.full, SECOND) == STAYED;
    "TimeoutExt::wait_released_timeout" => TimeoutExt::wait_released_timeout(&it.full, it.later) == STAYED;
    "Workers::wait_released_until" | "WorkerPool::wait_released_until" => {
        Workers::wait_released_until(&it.full, None) == STAYED
    };
    "TimeoutExt::release_timeout" => TimeoutExt::release_timeout(&it.full, SECOND) == STAYED;
    "TimeoutExt::release_timeout" => TimeoutExt::release_timeout(&it.full, it.later) == STAYED;
    "Workers::release_until" | "WorkerPool::release_until" => Workers::release_until(&it.full, None) == STAYED;
};

const TASKS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "TaskBuilder::submit" => refused(it.full.task().submit(|| ())) && refused(it.full.task().name("n").submit(|| ()));
    "TaskBuilder::submit_timeout" => refused(it.full.task().submit_timeout(|| (), SECOND));
    "TaskBuilder::submit_timeout" => refused(it.full.task().submit_timeout(|| (), it.later));
    "TaskBuilder::submit_async" => refused(ready(it.full.task().submit_async(|| ())));
    "TaskBuilder::try_submit" => refused(it.full.task().try_submit(|| ()));
    "TaskBuilder::spawn" => refused(it.full.task().spawn(|| ()));
    "TaskBuilder::spawn_timeout" => refused(it.full.task().spawn_timeout(|| (), SECOND));
    "TaskBuilder::spawn_timeout" => refused(it.full.task().spawn_timeout(|| (), it.later));
    // The token was made before the fork. The error must not say that the task was cancelled.
    "TaskBuilder::spawn_async" => refused(ready(it.full.task().cancelled_by(&it.token).spawn_async(|| ())));
    "TaskBuilder::try_spawn" => refused(it.full.task().try_spawn(|| ()));
    "JoinHandle::join" => lost(it.handle.take().expect("it is there").join());
    "JoinHandle::join_timeout" => {
        it.handle.take().expect("it is there").join_timeout(SECOND).is_ok_and(lost)
    };
    "JoinHandle::join_timeout" => {
        it.handle.take().expect("it is there").join_timeout(it.later).is_ok_and(lost)
    };
    "JoinHandle::try_join" => it.handle.take().expect("it is there").try_join().is_ok_and(lost);
    "JoinHandle::poll" => lost(ready(it.handle.as_mut().expect("it is there")));
    "CancelToken::wait" => !it.token.wait() && it.token.cancel() && it.token.wait();
    "CancelToken::wait_timeout" => !it.token.wait_timeout(Duration::MAX) && !it.token.wait_timeout(Duration::ZERO);
    "CancelToken::wait_timeout" => !it.token.wait_timeout(Instant::now());
    "CancelToken::wait_timeout_by" => {
        let clock = ManualClock::new();
        !it.token.wait_timeout_by(&clock, pool_core::Clock::now(&clock))
    };
    "Cancelled::poll" => !ready(&mut it.cancelled) && !ready(it.token.cancelled());
    "Cancelled::drop" => { drop(std::mem::replace(&mut it.cancelled, it.token.cancelled())); true };
    "CancelOnDrop::drop" => { drop(it.token.clone().drop_guard()); it.token.is_cancelled() };
};

#[test]
fn no_call_on_a_pool_waits_in_a_forked_child() {
    let ended = in_child("forks::no_call_on_a_pool_waits_in_a_forked_child", || {
        let full = queueing(1);
        let open = Pool::builder().capacity(4).build().unwrap();
        let at_work = hold(&full, 1);
        full.submit(|| ()).unwrap();
        let gate = Gate::new();
        let wait = gate.clone();
        let handle = open.spawn(move || wait.wait()).unwrap();
        gate.wait_for_arrivals(1);
        let token = CancelToken::new();
        let mut inherited = Inherited {
            later: Instant::now() + SECOND,
            handle: Some(handle),
            permits: vec![open.reserve().unwrap()],
            reserving: full.reserve_async(),
            submitting: {
                let submitted = full.submit_async(|| ());
                Box::pin(async { submitted.await.map_err(SubmitError::without_task) })
            },
            idle: Box::pin(full.wait_idle_async()),
            released: Box::pin(full.wait_released_async()),
            cancelled: token.cancelled(),
            token,
            full,
            open,
        };
        assert!(poll(&mut inherited.reserving).is_pending());
        assert!(poll(&mut inherited.submitting).is_pending());
        assert!(poll(&mut inherited.idle).is_pending());
        assert!(poll(&mut inherited.released).is_pending());
        assert!(poll(&mut inherited.cancelled).is_pending());
        check_in_forks(&mut inherited, POOLS);
        check_in_forks(&mut inherited, TRAITS);
        check_in_forks(&mut inherited, TASKS);
        // The parent's tasks continue.
        gate.open();
        at_work.open();
        inherited.handle.take().unwrap().join().unwrap();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

/// Waits for a pool with a worker that is kept until the limit.
fn times_out_at_its_limit(pool: &Pool) {
    const LIMIT: Duration = Duration::from_millis(5);
    let begin = Instant::now();
    let waited = block_on(pool.release_timeout_async(LIMIT));
    assert_eq!(waited, Err(WaitError::TimedOut));
    assert!(begin.elapsed() >= LIMIT);
}

/// Runs all tasks of a pool within a limit.
fn runs_tasks_before_its_limit(pool: &Pool) {
    let handles: Vec<_> = (0..5).map(|_| pool.spawn(|| ()).unwrap()).collect();
    let waited = block_on(pool.release_timeout_async(3600 * SECOND));
    assert_eq!(waited, Ok(()));
    assert!(handles.into_iter().all(|handle| handle.join().is_ok()));
}

fn uses_timed_waits() {
    runs_tasks_before_its_limit(&queueing(9));
    let held = pool(1);
    let gate = hold(&held, 1);
    times_out_at_its_limit(&held);
    gate.open();
    held.wait_released().unwrap();
}

#[test]
fn a_pool_built_in_a_forked_child_has_timed_waits_although_its_parent_used_them() {
    let test =
        "forks::a_pool_built_in_a_forked_child_has_timed_waits_although_its_parent_used_them";
    let ended = in_child(test, || {
        uses_timed_waits();
        assert_eq!(in_fork(uses_timed_waits), Ok(()));
        uses_timed_waits();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn timed_waits_keep_their_limit_although_no_thread_can_be_started() {
    let test = "forks::timed_waits_keep_their_limit_although_no_thread_can_be_started";
    let ended = in_child(test, || {
        let (held, open) = (pool(1), queueing(9));
        let gate = hold(&held, 1);
        open.spawn(|| ()).unwrap().join().unwrap(); // Its worker stays.
        testkit::without_threads(|| {
            times_out_at_its_limit(&held);
            runs_tasks_before_its_limit(&open);
        });
        gate.open();
        held.wait_released().unwrap();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn a_child_that_a_blocked_worker_forks_leaves_its_pool_alone() {
    let test = "forks::a_child_that_a_blocked_worker_forks_leaves_its_pool_alone";
    let ended = in_child(test, || {
        let pool = Pool::builder().capacity(1).max_compensation(1).build();
        let pool = pool.unwrap();
        let inner = pool.clone();
        let forks =
            move || blocking(|| in_fork(|| blocking(|| assert!(inner.submit(|| ()).is_err()))));
        assert_eq!(pool.spawn(forks).unwrap().join().unwrap(), Ok(()));
        assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
    });
    assert!(ended.is_ok(), "{ended:?}");
}

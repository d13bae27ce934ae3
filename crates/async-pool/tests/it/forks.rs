//! Pools of futures in a forked child: no call waits there for workers or threads of the parent.
#![expect(
    clippy::needless_pass_by_value,
    reason = "each result is checked at its call"
)]

use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_pool::{
    AsyncPool, Interval, JoinError, JoinHandle, Map, Permit, PoolLayer, ResponseFuture,
    ServiceError, SubmitError, TaskGroup, WaitError,
};
use testkit::{
    ForkCase, Gate, block_on_counted, check_in_forks, fork_cases, in_child, in_fork, ready as now,
};
use tower::{Service, service_fn};
use tower_layer::Layer;

use crate::pool;

const SECOND: Duration = Duration::from_secs(1);
const STAYED: Result<(), WaitError> = Err(WaitError::Forked);

type Started<T> = Pin<Box<dyn Future<Output = T>>>;

/// The pools that a child inherits. Their workers wait at a gate, so no lock is held at a fork.
struct Inherited {
    /// Its worker runs the task of `handles`, and it has no room.
    full: AsyncPool,
    /// Its worker runs a task, and it has room for more.
    open: AsyncPool,
    later: Instant,
    handles: Vec<JoinHandle<()>>,
    permits: Vec<Permit<async_pool::Futures>>,
    group: Option<TaskGroup<Result<(), u8>>>,
    /// Their items wait for the worker.
    map: Map<'static, Ready<Result<(), u8>>>,
    unordered: Map<'static, Ready<Result<(), u8>>>,
    submitting: Started<Result<(), SubmitError<Ready<()>>>>,
    reserving: Option<Started<Result<Permit<async_pool::Futures>, SubmitError>>>,
    idle: Started<Result<(), WaitError>>,
    released: Started<Result<(), WaitError>>,
    response: Option<ResponseFuture<(), Infallible>>,
}

fn refused<V, T>(answer: Result<V, SubmitError<T>>) -> bool {
    matches!(answer, Err(SubmitError::Forked(_)))
}

fn lost<V>(answer: Result<V, JoinError>) -> bool {
    matches!(answer, Err(JoinError::Forked))
}

fn group(it: &Inherited) -> &TaskGroup<Result<(), u8>> {
    it.group.as_ref().expect("it is there")
}

/// Whether a map returns the error of each item that it has started, and ends.
fn map_lost(map: &mut Map<'_, Ready<Result<(), u8>>>) -> bool {
    let mut answers = std::iter::from_fn(|| now(map.next_async()));
    answers.next().is_some_and(lost) && answers.all(lost)
}

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

const POOLS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "AsyncWorkerPool::submit" => refused(it.full.submit(ready(()))) && refused(it.open.submit(ready(())));
    "AsyncWorkerPool::try_submit" => refused(it.open.try_submit(ready(())));
    "AsyncWorkerPool::submit_timeout" => refused(it.full.submit_timeout(ready(()), SECOND));
    "AsyncWorkerPool::submit_timeout" => refused(it.full.submit_timeout(ready(()), it.later));
    "AsyncWorkerPool::submit_async" => refused(now(it.full.submit_async(ready(()))));
    "AsyncWorkerPool::spawn" => refused(it.full.spawn(ready(()))) && refused(it.open.spawn(ready(())));
    "AsyncWorkerPool::try_spawn" => refused(it.open.try_spawn(ready(())));
    "AsyncWorkerPool::spawn_timeout" => refused(it.full.spawn_timeout(ready(()), SECOND));
    "AsyncWorkerPool::spawn_timeout" => refused(it.full.spawn_timeout(ready(()), it.later));
    "AsyncWorkerPool::spawn_async" => refused(now(it.full.spawn_async(ready(()))));
    "AsyncWorkerPool::reserve" => refused(it.full.reserve());
    "AsyncWorkerPool::try_reserve" => refused(it.open.try_reserve());
    "AsyncWorkerPool::reserve_timeout" => refused(it.full.reserve_timeout(SECOND));
    "AsyncWorkerPool::reserve_timeout" => refused(it.full.reserve_timeout(it.later));
    "AsyncWorkerPool::reserve_async" => refused(now(it.full.reserve_async()));
    // Drops a future that waits for room.
    "AsyncWorkerPool::reserve_async" => { drop(it.reserving.take()); true };
    // The permit's task is dropped unrun.
    "Permit::submit" => { it.permits.pop().expect("it is there").submit(pending::<()>()); true };
    "Permit::spawn" => lost(it.permits.pop().expect("it is there").spawn(ready(())).join());
    "Permit::drop" => { it.permits.clear(); true };
    "AsyncWorkerPool::wait_idle" => it.full.wait_idle() == STAYED;
    "AsyncWorkerPool::wait_idle_timeout" => it.full.wait_idle_timeout(SECOND) == STAYED;
    "AsyncWorkerPool::wait_idle_timeout" => it.full.wait_idle_timeout(it.later) == STAYED;
    "AsyncWorkerPool::wait_idle_async" => now(it.full.wait_idle_async()) == STAYED;
    "AsyncWorkerPool::wait_idle_async" => now(&mut it.idle) == STAYED;
    "AsyncWorkerPool::wait_released" => it.full.wait_released() == STAYED;
    "AsyncWorkerPool::wait_released_timeout" => it.full.wait_released_timeout(SECOND) == STAYED;
    "AsyncWorkerPool::wait_released_timeout" => it.full.wait_released_timeout(it.later) == STAYED;
    "AsyncWorkerPool::wait_released_async" => now(it.full.wait_released_async()) == STAYED;
    "AsyncWorkerPool::wait_released_async" => now(&mut it.released) == STAYED;
    "AsyncWorkerPool::release" => { it.full.release(); true };
    "AsyncWorkerPool::release_now" => { it.full.release_now(); true };
    // The child can use a pool that it has built itself.
    "AsyncWorkerPool::wait_released" => {
        let own = pool(1, 1);
        let two = own.spawn(ready(2)).expect("it has room").join();
        own.release() && two.is_ok_and(|two| two == 2) && own.wait_released().is_ok()
    };
};

const HANDLES: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "JoinHandle::join" => lost(it.handles.pop().expect("it is there").join());
    "JoinHandle::join_timeout" => {
        it.handles.pop().expect("it is there").join_timeout(SECOND).is_ok_and(lost)
    };
    "JoinHandle::join_timeout" => {
        it.handles.pop().expect("it is there").join_timeout(it.later).is_ok_and(lost)
    };
    "JoinHandle::poll" => lost(now(it.handles.pop().expect("it is there")));
    "JoinHandle::poll" => lost(now(it.handles.pop().expect("it is there").cancelled()));
    "JoinHandle::drop" | "JoinHandle::cancel_on_drop" => {
        drop(it.handles.pop().expect("it is there").cancel_on_drop());
        true
    };
};

const GROUPS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "TaskGroup::spawn" => refused(group(it).spawn(ready(Ok(()))));
    "TaskGroup::try_spawn" => refused(group(it).try_spawn(ready(Ok(()))));
    "TaskGroup::spawn_timeout" => refused(group(it).spawn_timeout(ready(Ok(())), SECOND));
    "TaskGroup::spawn_timeout" => refused(group(it).spawn_timeout(ready(Ok(())), it.later));
    "TaskGroup::spawn_async" => refused(now(group(it).spawn_async(ready(Ok(())))));
    // The group reports once that its tasks belong to the parent.
    "TaskGroup::next" => group(it).next().is_some_and(lost) && group(it).next().is_none();
    "TaskGroup::next_timeout" => {
        matches!(group(it).next_timeout(SECOND), Ok(Some(Err(JoinError::Forked))))
    };
    "TaskGroup::next_timeout" => {
        matches!(group(it).next_timeout(it.later), Ok(Some(Err(JoinError::Forked))))
    };
    "TaskGroup::try_next" => group(it).try_next().is_some_and(lost);
    "TaskGroup::next_async" => {
        now(group(it).next_async()).is_some_and(lost) && now(group(it).next_async()).is_none()
    };
    "TaskGroup::wait" => lost(group(it).wait());
    "TaskGroup::wait_async" => lost(now(group(it).wait_async()));
    "TaskGroup::wait_ok" => lost(group(it).wait_ok());
    "TaskGroup::wait_ok_async" => lost(now(group(it).wait_ok_async()));
    "TaskGroup::drop" => { drop(it.group.take()); true };
    "AsyncWorkerPool::map" => map_lost(&mut it.full.map(0..3, 2, |_| ready(Ok(()))));
    "AsyncWorkerPool::map_stream" => {
        map_lost(&mut it.full.map_stream(futures_lite::stream::iter(0..3), 2, |_| ready(Ok(()))))
    };
    "AsyncWorkerPool::for_each_concurrent" => {
        lost(now(it.full.for_each_concurrent(0..3, 2, |_| ready(Ok::<_, u8>(())))))
    };
    "Map::next_async" | "Map::poll_next" => map_lost(&mut it.map) && map_lost(&mut it.unordered);
    "Map::finish" => lost(now(it.full.map(0..3, 2, |_| ready(Ok::<_, u8>(()))).finish()));
};

const ADAPTERS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    // By another crate's trait.
    "AsyncWorkerPool::try_submit" => futures_task::Spawn::spawn_obj(&it.open, Box::pin(ready(())).into()).is_err();
    "PoolService::poll_ready" | "PoolService::call" | "ResponseFuture::poll" => {
        let layer = PoolLayer::new(it.full.clone());
        let mut service = layer.layer(service_fn(|()| ready(Ok::<_, Infallible>(()))));
        let is_ready = service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready();
        let answer = now(service.call(()));
        is_ready && matches!(answer, Err(ServiceError::Refused(SubmitError::Forked(()))))
    };
    "ResponseFuture::poll" => {
        let response = it.response.take().expect("it is there");
        matches!(now(response), Err(ServiceError::Lost(JoinError::Forked)))
    };
};

// The parent has no sleep: its alarm thread might hold a lock at a fork.
const TIMERS: &[ForkCase<()>] = fork_cases! { _it: ();
    "sleep_until" | "sleep" | "Sleep::poll" => {
        now(async_pool::sleep(Duration::ZERO));
        testkit::block_on(async_pool::sleep_until(Instant::now() + Duration::from_millis(1)));
        true
    };
    "Sleep::drop" => {
        let mut sleep = async_pool::sleep(60 * SECOND);
        poll(&mut sleep).is_pending()
    };
    "timeout" => now(async_pool::timeout(Duration::ZERO, pending::<()>())).is_err();
    "interval" | "Interval::tick" => { now(Interval::tick(&mut async_pool::interval(SECOND))); true };
    "yield_now" => { testkit::block_on(async_pool::yield_now()); true };
};

#[test]
fn no_call_waits_in_a_forked_child() {
    let ended = in_child("forks::no_call_waits_in_a_forked_child", || {
        let gate = Gate::new();
        let held = |pool: &AsyncPool| {
            let gate = gate.clone();
            pool.spawn(async move { gate.wait() }).unwrap()
        };
        let (full, open) = (pool(1, 1), pool(1, 100));
        let mut handles = vec![held(&full), held(&open)];
        gate.wait_for_arrivals(2);
        handles.extend((0..5).map(|_| open.spawn(ready(())).unwrap()));
        let permits = (0..3).map(|_| open.reserve().unwrap()).collect();
        let group = open.group();
        group.spawn(ready(Ok(()))).unwrap();
        let map = || open.map(0..10, 2, |_| ready(Ok(())));
        let (mut map, mut unordered) = (map(), map().unordered());
        assert!(poll(&mut map.next_async()).is_pending());
        assert!(poll(&mut unordered.next_async()).is_pending());
        let mut submitting = Box::pin(full.submit_async(ready(())));
        assert!(poll(&mut submitting).is_pending());
        let mut reserving = Box::pin(full.reserve_async());
        assert!(poll(&mut reserving).is_pending());
        let mut idle = Box::pin(full.wait_idle_async());
        assert!(poll(&mut idle).is_pending());
        let mut released = Box::pin(full.wait_released_async());
        assert!(poll(&mut released).is_pending());
        let service = service_fn(|()| ready(Ok::<_, Infallible>(())));
        let mut service = PoolLayer::new(open.clone()).layer(service);
        assert!(
            service
                .poll_ready(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        );
        let response = Some(service.call(()));
        let mut inherited = Inherited {
            full,
            open,
            later: Instant::now() + SECOND,
            handles,
            permits,
            group: Some(group),
            map,
            unordered,
            submitting,
            reserving: Some(reserving),
            idle,
            released,
            response,
        };
        check_in_forks(&mut inherited, POOLS);
        check_in_forks(&mut inherited, HANDLES);
        check_in_forks(&mut inherited, GROUPS);
        check_in_forks(&mut inherited, ADAPTERS);
        check_in_forks(&mut (), TIMERS);
        // The parent's tasks continue.
        gate.open();
        inherited.open.wait_idle_timeout(60 * SECOND).unwrap();
        inherited.group.take().unwrap().wait_ok().unwrap().unwrap();
        assert!(testkit::block_on(inherited.submitting).is_ok());
        inherited.permits.clear();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

/// How long a sleep outside of a pool takes.
const SLEEP: Duration = Duration::from_millis(20);

/// Sleeps outside of a pool. Returns the number of polls.
fn sleeps_in_time() -> u32 {
    let begin = Instant::now();
    let ((), polls) = block_on_counted(async_pool::sleep(SLEEP));
    assert!(begin.elapsed() >= SLEEP);
    polls
}

#[test]
fn a_sleep_outside_of_pools_in_a_forked_child_has_an_alarm() {
    let test = "forks::a_sleep_outside_of_pools_in_a_forked_child_has_an_alarm";
    let ended = in_child(test, || {
        let of_child = || assert!(sleeps_in_time() <= 2, "one wake-up");
        of_child();
        // Polled in the parent: its alarm exists only there.
        let mut inherited = Box::pin(async_pool::sleep(SLEEP));
        let mut noop = Context::from_waker(Waker::noop());
        assert!(inherited.as_mut().poll(&mut noop).is_pending());
        let resumed = || assert!(block_on_counted(inherited.as_mut()).1 <= 2);
        assert_eq!(in_fork(of_child), Ok(()));
        assert_eq!(in_fork(resumed), Ok(()));
        of_child();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_sleep_outside_of_pools_does_not_keep_the_processor_busy_if_no_thread_can_be_started() {
    let test = "forks::a_sleep_outside_of_pools_does_not_keep_the_processor_busy_if_no_thread_can_be_started";
    let ended = in_child(test, || {
        let begin = Instant::now();
        let polls = testkit::without_threads(sleeps_in_time);
        // Each poll but the last two blocks for some milliseconds.
        let most = begin.elapsed().as_millis() / sync_shim::LONGEST_PACE.as_millis() + 2;
        assert!(u128::from(polls) <= most, "{polls} polls");
        let limited = async_pool::timeout(SLEEP, pending::<()>());
        assert!(
            testkit::without_threads(|| block_on_counted(limited))
                .0
                .is_err()
        );
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[testkit::test]
fn a_task_that_forks_finds_its_pool_refused_and_may_use_a_new_one_in_the_child() {
    let (pool, inner) = (pool(2, 8), pool(1, 1));
    let held = inner.spawn(pending::<()>()).unwrap();
    let (outer, other) = (pool.clone(), inner.clone());
    let in_child = pool.spawn(async move {
        in_fork(|| {
            assert!(refused(outer.try_spawn(ready(()))));
            assert!(refused(other.submit(ready(()))));
            assert_eq!(outer.wait_idle(), STAYED);
            let own = crate::pool(1, 2);
            let task = own.spawn(async {
                async_pool::sleep(Duration::from_millis(1)).await;
                3
            });
            assert_eq!(task.unwrap().join().unwrap(), 3);
        })
    });
    in_child.unwrap().join().unwrap().unwrap();
    // The task that has forked ended as any other.
    assert_eq!(pool.spawn(ready(4)).unwrap().join().unwrap(), 4);
    held.cancel();
    pool.wait_idle().unwrap();
}

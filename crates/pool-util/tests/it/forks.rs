//! Mappings, scopes, groups and keyed tasks in a forked child: no call waits there for workers or threads of the
//! parent.
#![expect(
    clippy::needless_pass_by_value,
    reason = "each result is checked at its call"
)]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pool_core::{JoinError, Pool, SubmitError, current};
use pool_util::{Keyed, Map, MapError, PoolExt, Scope, ScopedJoinHandle, ScopedMap, TaskGroup};
use testkit::{ForkCase, Gate, block_on, check_in_forks, fork_cases, in_child, in_fork, ready};

use crate::support::{hold, pool, queueing};

const SECOND: Duration = Duration::from_secs(1);

/// The state that a child inherits. All workers wait at a gate, so no lock is held at a fork.
struct Inherited {
    /// Its worker runs the group's task, and its queue is full.
    full: Pool,
    later: Instant,
    group: TaskGroup<Result<(), u8>>,
    keyed: Keyed<u8>,
    /// It has returned one result, and a worker runs the next item.
    map: Option<Map<Range<u32>, u32>>,
}

fn refused<V, T>(answer: Result<V, SubmitError<T>>) -> bool {
    matches!(answer, Err(SubmitError::Forked(_)))
}

fn map_refused<V, E>(answer: Result<V, MapError<E>>) -> bool {
    matches!(answer, Err(MapError::Refused(SubmitError::Forked(()))))
}

fn lost<V>(answer: Result<V, JoinError>) -> bool {
    matches!(answer, Err(JoinError::Forked))
}

const MAPPINGS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "PoolExt::map" => map_refused(it.full.map(0..3, |n| n).next().expect("an item"));
    "PoolExt::map_unordered" => map_refused(it.full.map_unordered(0..3, |n| n).next().expect("an item"));
    "PoolExt::try_map" => map_refused(it.full.try_map(0..3, Err::<(), u8>).next().expect("an item"));
    "PoolExt::try_map_unordered" => {
        map_refused(it.full.try_map_unordered(0..3, Err::<(), u8>).next().expect("an item"))
    };
    "PoolExt::for_each" => map_refused(it.full.for_each(0..3, drop));
    "PoolExt::try_for_each" => map_refused(it.full.try_for_each(0..3, Err::<(), u8>));
    "PoolExt::invoke_any" => map_refused(it.full.invoke_any([|| Ok::<_, u8>(())]));
    "PoolExt::invoke_any_async" => map_refused(ready(it.full.invoke_any_async([|| Ok::<_, u8>(())])));
    "Map::next" => {
        let map = it.map.as_mut().expect("it is there");
        map_refused(map.next().expect("an item")) && map.next().is_none()
    };
    "Map::drop" => { drop(it.map.take()); true };
    // The scope's owner runs the task.
    "PoolExt::scope" => it.full.scope(|scope| scope.spawn(|| 3).join()).is_ok_and(|three| three == 3);
};

#[cfg(feature = "stream")]
const STREAMS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "MapStream::poll_next" => {
        use futures_lite::StreamExt;
        let mut stream = it.map.take().expect("it is there").into_stream();
        map_refused(ready(stream.next()).expect("an item")) && ready(stream.next()).is_none()
    };
};

const GROUPS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "TaskGroup::submit" => refused(it.group.submit(|| ()));
    "TaskGroup::submit_timeout" => refused(it.group.submit_timeout(|| (), SECOND));
    "TaskGroup::submit_timeout" => refused(it.group.submit_timeout(|| (), it.later));
    "TaskGroup::submit_async" => refused(ready(it.group.submit_async(|| ())));
    "TaskGroup::try_submit" => refused(it.group.try_submit(|| ()));
    "TaskGroup::spawn" => refused(it.group.spawn(|| Ok(())));
    "TaskGroup::spawn_timeout" => refused(it.group.spawn_timeout(|| Ok(()), SECOND));
    "TaskGroup::spawn_timeout" => refused(it.group.spawn_timeout(|| Ok(()), it.later));
    "TaskGroup::spawn_async" => refused(ready(it.group.spawn_async(|| Ok(()))));
    "TaskGroup::try_spawn" => refused(it.group.try_spawn(|| Ok(())));
    // The group reports once that its tasks belong to the parent.
    "TaskGroup::next" => it.group.next().is_some_and(lost) && it.group.next().is_none();
    "TaskGroup::next_timeout" => {
        matches!(it.group.next_timeout(it.later), Ok(Some(Err(JoinError::Forked))))
    };
    // No task of the group ends here. `next` returns the report.
    "TaskGroup::try_next" => it.group.try_next().is_none() && it.group.next().is_some_and(lost);
    "TaskGroup::next_async" => ready(it.group.next_async()).is_some_and(lost);
    "TaskGroup::poll_next" => {
        let mut context = Context::from_waker(Waker::noop());
        matches!(it.group.poll_next(&mut context), Poll::Ready(Some(Err(JoinError::Forked))))
    };
    "TaskGroup::wait" => lost(it.group.wait());
    "TaskGroup::wait_timeout" => it.group.wait_timeout(it.later).is_ok_and(lost);
    "TaskGroup::wait_async" => lost(ready(it.group.wait_async()));
    "TaskGroup::wait_ok" => map_refused(it.group.wait_ok());
    "TaskGroup::wait_ok_async" => map_refused(ready(it.group.wait_ok_async()));
};

const KEYS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "Keyed::submit" => refused(it.keyed.submit(1, || ()));
    "Keyed::submit_timeout" => refused(it.keyed.submit_timeout(1, || (), SECOND));
    "Keyed::submit_timeout" => refused(it.keyed.submit_timeout(1, || (), it.later));
    "Keyed::submit_async" => refused(ready(it.keyed.submit_async(1, || ())));
    "Keyed::try_submit" => refused(it.keyed.try_submit(1, || ()));
    "Keyed::spawn" => refused(it.keyed.spawn(1, || ()));
    "Keyed::spawn_timeout" => refused(it.keyed.spawn_timeout(1, || (), SECOND));
    "Keyed::spawn_timeout" => refused(it.keyed.spawn_timeout(1, || (), it.later));
    "Keyed::spawn_async" => refused(ready(it.keyed.spawn_async(1, || ())));
    "Keyed::try_spawn" => refused(it.keyed.try_spawn(1, || ()));
};

#[test]
fn no_call_of_a_mapping_or_a_group_waits_in_a_forked_child() {
    let ended = in_child(
        "forks::no_call_of_a_mapping_or_a_group_waits_in_a_forked_child",
        || {
            let (full, mapping, gate) = (queueing(1), queueing(1), Gate::new());
            let [of_group, of_map] = [(); 2].map(|()| gate.clone());
            let group = full.group();
            let in_group = move || {
                of_group.wait();
                Ok(())
            };
            group.spawn(in_group).unwrap();
            let mut map = mapping.map(0..2, move |n| {
                if n == 1 {
                    of_map.wait();
                }
                n
            });
            assert_eq!(map.next().unwrap().unwrap(), 0);
            gate.wait_for_arrivals(2);
            full.submit(|| ()).unwrap();
            let keyed = full.keyed();
            let mut inherited = Inherited {
                full,
                later: Instant::now() + SECOND,
                group,
                keyed,
                map: Some(map),
            };
            check_in_forks(&mut inherited, MAPPINGS);
            check_in_forks(&mut inherited, GROUPS);
            check_in_forks(&mut inherited, KEYS);
            #[cfg(feature = "stream")]
            check_in_forks(&mut inherited, STREAMS);
            // The parent's tasks continue.
            gate.open();
            assert!(inherited.map.take().unwrap().next().unwrap().is_ok());
            inherited.group.wait().unwrap();
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

/// The state of a child that is forked within a scope.
struct Scoped<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    /// The handle of a running task.
    handle: Option<ScopedJoinHandle<'scope, ()>>,
    map: Option<ScopedMap<'scope, 'env, Range<u32>, u32>>,
}

#[test]
fn no_call_on_a_scope_waits_in_a_forked_child() {
    let ended = in_child("forks::no_call_on_a_scope_waits_in_a_forked_child", || {
        let (pool, gate) = (pool(2), Gate::new());
        let held = hold(&pool, 1);
        pool.scope(|scope| {
            let handle = scope.spawn(|| gate.wait());
            gate.wait_for_arrivals(1);
            let mut scoped = Scoped {
                scope,
                handle: Some(handle),
                map: Some(scope.map(0..4, |n| n)),
            };
            let cases = fork_cases! { it: Scoped<'_, '_>;
                // It panics, because it has no error to return.
                "Scope::submit" => catch_unwind(AssertUnwindSafe(|| it.scope.submit(|| ()))).is_err();
                "Scope::spawn" => lost(it.scope.spawn(|| ()).join());
                "Scope::map" => map_refused(it.scope.map(0..3, |n| n).next().expect("an item"));
                "Scope::try_map" => map_refused(it.scope.try_map(0..3, Err::<(), u8>).next().expect("an item"));
                "TaskBuilder::submit" => {
                    catch_unwind(AssertUnwindSafe(|| it.scope.task().name("n").submit(|| ()))).is_err()
                };
                "TaskBuilder::spawn" => lost(it.scope.task().name("n").spawn(|| ()).join());
                "ScopedJoinHandle::join" => lost(it.handle.take().expect("it is there").join());
                "ScopedJoinHandle::drop" => { drop(it.handle.take()); true };
                "ScopedMap::next" => {
                    let map = it.map.as_mut().expect("it is there");
                    map_refused(map.next().expect("an item")) && map.next().is_none()
                };
                "ScopedMap::drop" => { drop(it.map.take()); true };
            };
            check_in_forks(&mut scoped, cases);
            gate.open();
        });
        held.open();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

/// A group with a deadline, whose task runs until it is asked to stop.
fn cancels_at_its_deadline(pool: &Pool) {
    const LIMIT: Duration = Duration::from_millis(5);
    let begin = Instant::now();
    let group = pool.group().cancel_at(begin + LIMIT);
    let spawned = group.spawn(|| current().token().wait());
    let next = block_on(group.next_async());
    assert!(begin.elapsed() >= LIMIT);
    match spawned {
        // The deadline may pass before the task starts,
        Ok(()) => assert!(matches!(next, Some(Ok(true) | Err(JoinError::Cancelled)))),
        // or before it is submitted.
        Err(refused) => assert!(matches!(refused, SubmitError::Cancelled(_)) && next.is_none()),
    }
    assert!(block_on(group.next_async()).is_none());
}

#[test]
fn a_group_made_in_a_forked_child_has_a_deadline_although_its_parents_had_one() {
    let test = "forks::a_group_made_in_a_forked_child_has_a_deadline_although_its_parents_had_one";
    let ended = in_child(test, || {
        cancels_at_its_deadline(&pool(1));
        assert_eq!(in_fork(|| cancels_at_its_deadline(&pool(1))), Ok(()));
        cancels_at_its_deadline(&pool(1));
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_groups_deadline_cancels_although_no_thread_can_be_started() {
    let test = "forks::a_groups_deadline_cancels_although_no_thread_can_be_started";
    let ended = in_child(test, || {
        let pool = pool(1);
        pool.spawn(|| ()).unwrap().join().unwrap(); // Its worker stays.
        testkit::without_threads(|| cancels_at_its_deadline(&pool));
    });
    assert!(ended.is_ok(), "{ended:?}");
}

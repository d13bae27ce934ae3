//! Futures of groups, mappings and keyed tasks that an own worker polls until they are ready.

use std::thread::{self, ThreadId};

use futures_lite::StreamExt;
use pool_core::{JoinError, Pool, SubmitError};
use pool_util::{MapError, PoolExt};
use testkit::block_on;

use crate::support::{end, until};

/// Calls `task` on the only worker of a pool that has room for eight more tasks.
fn on_the_only_worker(task: impl FnOnce(&Pool) + Send + 'static) {
    let pool = Pool::builder().capacity(1).queue_depth(8).build().unwrap();
    let inner = pool.clone();
    let outer = pool.spawn(move || task(&inner)).unwrap();
    outer.join().unwrap();
    end(&pool);
}

/// The same in a full pool.
fn in_a_full_pool(task: impl FnOnce(&Pool) + Send + 'static) {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let inner = pool.clone();
    pool.spawn(move || task(&inner)).unwrap().join().unwrap();
    end(&pool);
}

fn here() -> ThreadId {
    thread::current().id()
}

#[testkit::test]
fn a_groups_futures_on_an_own_worker_run_the_tasks_that_have_not_started() {
    on_the_only_worker(|pool| {
        let group = pool.group();
        for _ in 0..3 {
            group.spawn(here).unwrap();
        }
        assert_eq!(block_on(group.next_async()).unwrap().unwrap(), here());
        assert_eq!(group.len(), 2, "it ran one task");
        block_on(group.wait_async()).unwrap();
        assert!(group.is_empty());

        let group = pool.group::<Result<(), &str>>();
        group.spawn(|| Ok(())).unwrap();
        group.spawn(|| Err("failed")).unwrap();
        let failed = block_on(group.wait_ok_async());
        assert!(matches!(failed, Err(MapError::Failed("failed"))));

        let tasks = [|| Err("first"), || Ok(7)];
        let any = block_on(pool.invoke_any_async(tasks));
        assert_eq!(any.unwrap(), Some(7));
    });
}

#[testkit::test]
fn a_groups_future_at_the_nesting_limit_gives_its_task_up_as_the_blocking_call_does() {
    let pool = Pool::builder().capacity(1).queue_depth(1).nesting_limit(0);
    let pool = pool.build().unwrap();
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let group = inner.group();
        group.spawn(|| ()).unwrap();
        block_on(group.next_async())
    });
    let given_up = outer.unwrap().join().unwrap();
    assert!(matches!(given_up, Some(Err(JoinError::WouldDeadlock))));
    end(&pool);
}

#[testkit::test]
fn futures_that_add_to_a_group_on_an_own_worker_of_a_full_pool_run_in_place() {
    in_a_full_pool(|pool| {
        let group = pool.group();
        let this = here();
        block_on(group.spawn_async(here)).unwrap();
        block_on(group.submit_async(move || assert_eq!(here(), this))).unwrap();
        assert_eq!(block_on(group.next_async()).unwrap().unwrap(), this);
        block_on(group.wait_async()).unwrap();
    });
}

#[testkit::test]
fn futures_that_add_keyed_tasks_on_an_own_worker_of_a_full_pool_are_refused() {
    in_a_full_pool(|pool| {
        let keyed = pool.keyed();
        let refused = [
            block_on(keyed.submit_async(1, || ())).map_err(SubmitError::without_task),
            block_on(keyed.spawn_async(1, || ()))
                .map(drop)
                .map_err(SubmitError::without_task),
            block_on(keyed.task().submit_async((1, || ()))).map_err(SubmitError::without_task),
        ];
        for refused in refused {
            assert!(refused.unwrap_err().is_full());
        }
    });
}

#[testkit::test]
fn a_keyed_task_that_has_not_started_refuses_a_poll_on_an_own_worker() {
    on_the_only_worker(|pool| {
        let task = pool.keyed().spawn(1, || ()).unwrap();
        assert!(matches!(block_on(task), Err(JoinError::WouldDeadlock)));
    });
}

#[cfg(feature = "stream")]
#[testkit::test]
fn a_stream_on_an_own_worker_runs_the_items_itself() {
    use futures_lite::StreamExt;

    for depth in [0, 8] {
        let pool = Pool::builder().capacity(1).queue_depth(depth).build();
        let pool = pool.unwrap();
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            let items = inner.map(0..100, |n| (n, here())).into_stream();
            let this = here();
            let each = items.map(|item| item.unwrap());
            let sum = each.fold(0, |sum, (n, there)| {
                assert_eq!(there, this);
                sum + n
            });
            block_on(sum)
        });
        assert_eq!(outer.unwrap().join().unwrap(), 4_950);
        end(&pool);
    }
}

/// Calls `wait` on another thread while a permit holds the only room of a pool. It waits for room until the permit is
/// returned, and then proceeds.
fn behind_a_permit<T: Send>(wait: impl FnOnce(&Pool) -> T + Send) -> T {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let permit = pool.reserve().unwrap();
    let answer = thread::scope(|threads| {
        let waits = threads.spawn(|| wait(&pool));
        until(|| pool.waiting() == 1);
        drop(permit);
        waits.join().unwrap()
    });
    end(&pool);
    answer
}

#[testkit::test]
fn calls_that_wait_for_the_room_of_a_permit_proceed_when_it_is_returned() {
    let taken = behind_a_permit(|pool| {
        let group = pool.group();
        group.spawn(|| 1).unwrap();
        group.next()
    });
    assert_eq!(taken.unwrap().unwrap(), 1);
    behind_a_permit(|pool| pool.group::<()>().submit(|| ())).unwrap();
    let any = behind_a_permit(|pool| pool.invoke_any([|| Ok::<_, ()>(2)]));
    assert_eq!(any.unwrap(), Some(2));
    let any = behind_a_permit(|pool| block_on(pool.invoke_any_async([|| Ok::<_, ()>(2)])));
    assert_eq!(any.unwrap(), Some(2));
    let task = behind_a_permit(|pool| pool.keyed().spawn("key", || 3)).unwrap();
    assert_eq!(task.join().unwrap(), 3);
    let task = behind_a_permit(|pool| block_on(pool.keyed().spawn_async("key", || 3))).unwrap();
    assert_eq!(task.join().unwrap(), 3);
    let count = behind_a_permit(|pool| pool.map(0..4, |n| n).flatten().count());
    assert_eq!(count, 4);
    behind_a_permit(|pool| pool.for_each(0..4, drop)).unwrap();
}

#[testkit::test]
fn a_scope_and_its_joins_need_no_room() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let permit = pool.reserve().unwrap();
    let joined = pool.scope(|scope| {
        scope.submit(|| ());
        scope.spawn(|| 4).join().unwrap()
    });
    assert_eq!(joined, 4);
    drop(permit);
    end(&pool);
}

#[testkit::test]
fn groups_mappings_and_keys_keep_the_pool_open_after_its_last_handle() {
    let own = || Pool::builder().capacity(1).queue_depth(8).build().unwrap();
    let pool = own();
    let group = pool.group();
    drop(pool);
    group.spawn(|| 1).unwrap();
    assert_eq!(group.next().unwrap().unwrap(), 1);
    assert_eq!(block_on(group.next_async()).map(Result::unwrap), None);
    drop(group);
    let pool = own();
    let results = pool.map(0..4, |n| n);
    drop(pool);
    assert_eq!(results.map(Result::unwrap).sum::<i32>(), 6);
    let pool = own();
    let results = pool.map(0..4, |n| n).into_stream();
    drop(pool);
    assert_eq!(
        block_on(results.map(Result::unwrap).fold(0, |sum, n| sum + n)),
        6
    );
    let pool = own();
    let keyed = pool.keyed();
    drop(pool);
    assert_eq!(keyed.spawn("key", || 3).unwrap().join().unwrap(), 3);
    let (spawns, any) = {
        let pool = own();
        let any = pool.invoke_any_async([|| Ok::<_, ()>(2)]);
        (keyed.spawn_async("key", || 3), any)
    };
    drop(keyed);
    assert_eq!(block_on(spawns).unwrap().join().unwrap(), 3);
    assert_eq!(block_on(any).unwrap(), Some(2));
}

//! Multi-pools in a forked child: no call waits there for workers or threads of the parent.
#![expect(
    clippy::needless_pass_by_value,
    reason = "each result is checked at its call"
)]

use std::future::Future;
use std::hash::RandomState;
use std::pin::Pin;
use std::time::{Duration, Instant};

use multi_pool::{MultiBuilder, MultiPool, MultiReserveFuture, MultiWaitError};
use pool_core::{
    BatchError, Closures, OnFull, Pool, Reserve, Spawn, Submit, SubmitError, WaitError, Workers,
};
use pool_util::{Keyed, MapError, PoolExt};
use testkit::{ForkCase, check_in_forks, fork_cases, in_child, ready};

use crate::support::{hold, hold_all, poll};

const SECOND: Duration = Duration::from_secs(1);
const STAYED: Result<(), WaitError> = Err(WaitError::Forked);

type Started<T> = Pin<Box<dyn Future<Output = T>>>;

/// The pools that a child inherits. All workers wait at gates, so no lock is held at a fork.
struct Inherited {
    /// The workers of its two pools are busy, and their queues are full.
    full: MultiPool,
    /// One worker is busy, and more workers may be started.
    open: MultiPool,
    later: Instant,
    keyed: Keyed<u8, RandomState, MultiPool>,
    reserving: MultiReserveFuture<Closures>,
    submitting: Started<Result<(), SubmitError>>,
    idle: Started<Result<(), MultiWaitError>>,
    released: Started<Result<(), MultiWaitError>>,
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

fn map_refused<V, E>(answer: Result<V, MapError<E>>) -> bool {
    matches!(answer, Err(MapError::Refused(SubmitError::Forked(()))))
}

/// Whether each of the pools reports that it belongs to the parent.
fn stayed<V>(answer: Result<V, MultiWaitError>) -> bool {
    answer.is_err_and(|error| {
        let pools = error.pools();
        pools.len() == 2 && pools.iter().all(|(_, reason)| *reason == WaitError::Forked)
    })
}

fn wait() -> OnFull {
    OnFull::Wait(None)
}

const CASES: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "WorkerPool::submit" => refused(it.full.submit(|| ())) && refused(it.open.submit(|| ()));
    "WorkerPool::submit_timeout" => refused(it.full.submit_timeout(|| (), SECOND));
    "WorkerPool::submit_timeout" => refused(it.full.submit_timeout(|| (), it.later));
    "WorkerPool::submit_with" => refused(Submit::submit_with(&it.full, || (), wait()));
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
    "WorkerPool::spawn_with" => refused(Spawn::spawn_with(&it.full, || (), wait()));
    "WorkerPool::spawn_async" => refused(ready(it.full.spawn_async(|| ())));
    "WorkerPool::try_spawn" => refused(it.full.try_spawn(|| ()));
    "WorkerPool::reserve" => refused(it.full.reserve());
    "WorkerPool::reserve_timeout" => refused(it.full.reserve_timeout(SECOND));
    "WorkerPool::reserve_timeout" => refused(it.full.reserve_timeout(it.later));
    "WorkerPool::reserve_with" => refused(Reserve::reserve_with(&it.full, wait()));
    "WorkerPool::reserve_async" => refused(ready(it.full.reserve_async()));
    "WorkerPool::try_reserve" => refused(it.full.try_reserve());
    "WorkerPool::wait_idle" => stayed(it.full.wait_idle());
    "WorkerPool::wait_idle_timeout" => stayed(it.full.wait_idle_timeout(SECOND));
    "WorkerPool::wait_idle_timeout" => stayed(it.full.wait_idle_timeout(it.later));
    "WorkerPool::wait_idle_async" => stayed(ready(it.full.wait_idle_async()));
    "WorkerPool::wait_idle_async" => stayed(ready(&mut it.idle));
    "WorkerPool::wait_released" => stayed(it.full.wait_released());
    "WorkerPool::wait_released_timeout" => stayed(it.full.wait_released_timeout(SECOND));
    "WorkerPool::wait_released_timeout" => stayed(it.full.wait_released_timeout(it.later));
    "WorkerPool::wait_released_async" => stayed(ready(it.full.wait_released_async()));
    "WorkerPool::wait_released_async" => stayed(ready(&mut it.released));
    "WorkerPool::release_timeout" => stayed(it.full.release_timeout(SECOND));
    "WorkerPool::release_timeout" => stayed(it.full.release_timeout(it.later));
    "WorkerPool::release_async" => stayed(ready(it.full.release_async()));
    "WorkerPool::release_timeout_async" => stayed(ready(it.full.release_timeout_async(Duration::MAX)));
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
    "ReserveFuture::poll" => refused(ready(&mut it.reserving));
    // Drops a future that waits for room.
    "WorkerPool::reserve_async" => { drop(std::mem::replace(&mut it.reserving, it.full.reserve_async())); true };
    "WorkerPool::wait_idle_until" => Workers::wait_idle_until(&it.full, None) == STAYED;
    "WorkerPool::wait_released_until" => Workers::wait_released_until(&it.full, None) == STAYED;
    "WorkerPool::release_until" => Workers::release_until(&it.full, None) == STAYED;
    // Nothing is left to release.
    "WorkerPool::release" => !it.full.release() && !Workers::release(&it.full);
    "WorkerPool::release_now" => it.full.release_now() == 0 && Workers::release_now(&it.full) == 0;
    // The task runs on its owner.
    "PoolExt::scope" => it.full.scope(|scope| scope.spawn(|| 3).join()).is_ok_and(|three| three == 3);
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
fn no_call_on_a_multi_pool_waits_in_a_forked_child() {
    let ended = in_child(
        "forks::no_call_on_a_multi_pool_waits_in_a_forked_child",
        || {
            let each = Pool::builder().capacity(1).queue_depth(1);
            let full = MultiBuilder::new(each).pools(2).build().unwrap();
            let open = MultiBuilder::new(Pool::builder().capacity(2))
                .pools(2)
                .build()
                .unwrap();
            let mut gates = hold_all(&full, 2);
            gates.push(hold(&open));
            full.submit_batch([|| (), || ()]).unwrap();
            let mut inherited = Inherited {
                later: Instant::now() + SECOND,
                keyed: full.keyed(),
                reserving: full.reserve_async(),
                submitting: {
                    let submitted = full.submit_async(|| ());
                    Box::pin(async { submitted.await.map_err(SubmitError::without_task) })
                },
                idle: Box::pin(full.wait_idle_async()),
                released: Box::pin(full.wait_released_async()),
                full,
                open,
            };
            assert!(poll(&mut inherited.reserving).is_pending());
            assert!(poll(&mut inherited.submitting).is_pending());
            assert!(poll(&mut inherited.idle).is_pending());
            assert!(poll(&mut inherited.released).is_pending());
            check_in_forks(&mut inherited, CASES);
            // The parent's tasks continue.
            gates.iter().for_each(testkit::Gate::open);
            drop((inherited.submitting, inherited.reserving));
            inherited.full.wait_idle().unwrap();
            inherited.full.spawn(|| ()).unwrap().join().unwrap();
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

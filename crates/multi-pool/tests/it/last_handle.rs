//! The drop of the last handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt};
use pool_core::{DropPolicy, Pool, SubmitError};
use testkit::{DropCounter, Gate};

use crate::support::{hold_all, multi, poll, until};

/// Two pools, each with a held worker and a queued task that counts its run.
fn loaded(
    policy: DropPolicy,
    stopped: &Arc<AtomicUsize>,
) -> (MultiPool, Vec<Gate>, DropCounter, Arc<AtomicUsize>) {
    let stops = Arc::clone(stopped);
    let each = Pool::builder()
        .capacity(1)
        .queue_depth(1)
        .drop_policy(policy)
        .stop_hook(move || _ = stops.fetch_add(1, SeqCst));
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let gates = hold_all(&pool, 2);
    let (drops, ran) = (DropCounter::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..2 {
        let (token, ran) = (drops.token(), Arc::clone(&ran));
        pool.try_submit(move || {
            ran.fetch_add(1, SeqCst);
            drop(token);
        })
        .unwrap();
    }
    (pool, gates, drops, ran)
}

#[testkit::test]
fn a_draining_drop_runs_accepted_tasks_and_does_not_block() {
    let stopped = Arc::new(AtomicUsize::new(0));
    let (pool, gates, drops, ran) = loaded(DropPolicy::Drain, &stopped);
    drop(pool);
    assert_eq!((drops.alive(), stopped.load(SeqCst)), (2, 0));
    gates.iter().for_each(Gate::open);
    until(|| stopped.load(SeqCst) == 2);
    assert_eq!((ran.load(SeqCst), drops.alive()), (2, 0));
}

#[testkit::test]
fn a_joining_drop_returns_when_every_pool_has_ended() {
    let stopped = Arc::new(AtomicUsize::new(0));
    let (pool, gates, drops, ran) = loaded(DropPolicy::Join, &stopped);
    gates.iter().for_each(Gate::open);
    drop(pool);
    assert_eq!(
        (ran.load(SeqCst), drops.alive(), stopped.load(SeqCst)),
        (2, 0, 2)
    );
}

#[testkit::test]
fn a_joining_drop_releases_every_pool_before_it_waits() {
    let gate = Gate::new();
    let opener = gate.clone();
    let each = Pool::builder()
        .capacity(1)
        .keep_alive(None)
        .drop_policy(DropPolicy::Join)
        .stop_hook(move || opener.open());
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let held = gate.clone();
    pool.submit(move || held.wait()).unwrap();
    pool.spawn(|| ()).unwrap().join().unwrap();
    assert_eq!([0, 1].map(|index| pool.running_of(index)), [Ok(1); 2]);
    drop(pool); // The second pool's idle worker ends, and its end opens the gate of the first pool.
    assert!(gate.is_open());
}

#[testkit::test]
fn a_discarding_drop_removes_unstarted_tasks_of_every_pool() {
    let stopped = Arc::new(AtomicUsize::new(0));
    let (pool, gates, drops, ran) = loaded(DropPolicy::Discard, &stopped);
    drop(pool);
    assert_eq!((ran.load(SeqCst), drops.alive()), (0, 0));
    gates.iter().for_each(Gate::open);
    until(|| stopped.load(SeqCst) == 2);
    assert_eq!(ran.load(SeqCst), 0);
}

#[testkit::test]
fn waiting_futures_and_weak_handles_do_not_keep_the_pools_open() {
    let pool = multi(2, 1);
    let gates = hold_all(&pool, 2);
    let mut future = pool.submit_async(|| ());
    assert!(poll(&mut future).is_pending());
    let weak = pool.downgrade();
    let clone = weak.upgrade().unwrap();
    drop(pool);
    assert!(!clone.is_released());
    drop(clone);
    assert!(weak.upgrade().is_none());
    assert!(matches!(
        poll(&mut future),
        Poll::Ready(Err(SubmitError::Released(_)))
    ));
    gates.iter().for_each(Gate::open);
}

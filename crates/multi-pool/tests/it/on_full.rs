//! The policies of full pools other than waiting and refusing, and paused pools.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use multi_pool::{MultiBuildError, MultiBuilder, MultiPool, RoundRobin};
use pool_core::{
    BuildError, Clock, FuncPool, JoinError, JoinHandle, ManualClock, OnFull, Pool, Spawn, Submit,
    SubmitError,
};
use testkit::Gate;

use crate::support::until;

/// Two pools of one held worker, with a queue of this depth each.
fn held(depth: usize, on_full: OnFull) -> (MultiPool, Gate) {
    let each = Pool::builder().capacity(1).queue_depth(depth);
    let each = each.discard_hook(|_| ());
    let pools = MultiBuilder::new(each.on_full(on_full)).pools(2);
    let pools = pools.strategy(RoundRobin::new()).build().unwrap();
    let gate = Gate::new();
    for _ in 0..2 {
        let gate = gate.clone();
        pools.try_submit(move || gate.wait()).unwrap();
    }
    gate.wait_for_arrivals(2);
    (pools, gate)
}

#[testkit::test]
fn a_caller_runs_its_task_only_if_every_pool_is_full() {
    let (pools, gate) = held(1, OnFull::RunInCaller);
    let us = thread::current().id();
    let queued: Vec<_> = (0..2)
        .map(|_| pools.spawn(|| thread::current().id()).unwrap())
        .collect();
    let ours = pools.spawn(|| thread::current().id()).unwrap();
    assert!(ours.is_finished());
    assert_eq!(ours.join().unwrap(), us);
    gate.open();
    for handle in queued {
        assert_ne!(handle.join().unwrap(), us);
    }
    pools.wait_idle().unwrap();
    assert_eq!(pools.stats().completed, 5);
}

#[testkit::test]
fn a_caller_that_may_not_run_its_task_waits_until_the_start_deadline() {
    let clock = ManualClock::new();
    let each = Pool::builder()
        .capacity(1)
        .keep_alive(None)
        .nesting_limit(0);
    let each = each.on_full(OnFull::RunInCaller).clock(clock.clone());
    let pools = MultiBuilder::new(each).pools(2).build().unwrap();
    let gate = Gate::new();
    for _ in 0..2 {
        let gate = gate.clone();
        pools.try_submit(move || gate.wait()).unwrap();
    }
    gate.wait_for_arrivals(2);
    let (caller, last) = (pools.clone(), clock.now() + Duration::from_secs(5));
    let waits = thread::spawn(move || caller.task().start_before(last).submit(|| ()));
    clock.wait_for_sleepers(1);
    clock.advance(Duration::from_secs(5));
    let waited = waits.join().unwrap();
    assert!(
        matches!(waited, Err(SubmitError::TimedOut(_))),
        "{waited:?}"
    );
    gate.open();
}

#[testkit::test]
fn full_pools_discard_the_oldest_task_of_one_pool_or_the_newest() {
    for (policy, gone) in [(OnFull::DiscardOldest, 1), (OnFull::DiscardNewest, 2)] {
        let (pools, gate) = held(1, policy);
        let queued: Vec<_> = (0..2).map(|n| pools.spawn(move || n).unwrap()).collect();
        let newest = pools.spawn(|| 2).unwrap();
        assert_eq!((pools.queued(), pools.stats().discarded), (2, 1));
        gate.open();
        let ends: Vec<_> = queued
            .into_iter()
            .chain([newest])
            .map(JoinHandle::join)
            .collect();
        let discarded = ends
            .iter()
            .filter(|it| matches!(it, Err(JoinError::Discarded)));
        assert_eq!(discarded.count(), 1);
        assert_eq!(ends[2].is_err(), gone == 2, "{policy:?}");
        pools.wait_idle().unwrap();
    }
    let (pools, gate) = held(0, OnFull::DiscardOldest);
    let none = pools.spawn(|| ()).unwrap();
    assert!(matches!(none.join(), Err(JoinError::Discarded)));
    gate.open();
    pools.wait_idle().unwrap();
}

#[testkit::test]
fn paused_pools_start_no_task_until_they_are_resumed_or_released() {
    let each = Pool::builder()
        .capacity(1)
        .queue_depth(4)
        .start_paused(true);
    let pools = MultiBuilder::new(each).pools(2).build().unwrap();
    let done = Arc::new(Mutex::new(0));
    let submit = || {
        let done = Arc::clone(&done);
        pools.submit(move || *done.lock().unwrap() += 1).unwrap();
    };
    (0..6).for_each(|_| submit());
    assert!(pools.is_paused() && !pools.pause());
    until(|| pools.idle() == 2);
    assert_eq!((pools.queued(), *done.lock().unwrap()), (6, 0));
    assert!(pools.resume() && !pools.resume());
    pools.wait_idle().unwrap();
    assert!(pools.pause());
    submit();
    assert!(pools.release() && !pools.is_paused());
    pools.wait_released().unwrap();
    assert_eq!(*done.lock().unwrap(), 7);
}

#[testkit::test]
fn discarding_pools_without_a_hook_are_not_built_and_discarding_calls_are_refused() {
    let each = FuncPool::builder(drop::<u8>).capacity(1).start_paused(true);
    let built = MultiBuilder::new(each.clone().on_full(OnFull::DiscardNewest));
    let refused = built.pools(2).build();
    let deaf = MultiBuildError::Pool(BuildError::NoDiscardHook);
    assert_eq!(refused.unwrap_err().to_string(), deaf.to_string());
    let pools = MultiBuilder::new(each).pools(2).build().unwrap();
    let refused = pools.submit_with(7, OnFull::DiscardOldest);
    assert!(matches!(refused, Err(SubmitError::NoDiscardHook(7))));
    let refused = pools.spawn_with(8, OnFull::DiscardNewest);
    assert!(matches!(refused, Err(SubmitError::NoDiscardHook(8))));
    assert_eq!((pools.stats().refused, pools.in_flight()), (2, 0));
}

#[testkit::test]
fn the_discard_hook_gets_the_task_that_one_of_the_full_pools_discards() {
    for (policy, gone) in [(OnFull::DiscardOldest, "0"), (OnFull::DiscardNewest, "2")] {
        let (sender, discarded) = mpsc::channel();
        let each = FuncPool::builder(drop::<u8>).capacity(1).start_paused(true);
        let each = each
            .on_full(policy)
            .discard_hook(move |it| sender.send(it.name().map(str::to_owned)).unwrap());
        let pools = MultiBuilder::new(each).pools(2);
        let pools = pools.strategy(RoundRobin::new()).build().unwrap();
        for n in 0..3 {
            pools.task().name(n.to_string()).submit(n).unwrap();
        }
        assert_eq!(
            discarded.try_recv(),
            Ok(Some(gone.to_owned())),
            "{policy:?}"
        );
        assert_eq!((pools.stats().discarded, pools.queued()), (1, 2));
    }
}

//! Mappings and scopes over several pools. The tests of pool-util cover the rest; these check that
//! all pools take part, and that their waiters and releases have an effect.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::task::Context;
use std::thread;

use futures_lite::{Stream, StreamExt};
use multi_pool::{LeastTasks, Loads, MultiBuilder, MultiPool, RoundRobin, Strategy};
use pool_core::{Pool, QueueDepth, SubmitError};
use pool_util::{MapError, PoolExt};
use testkit::{CountingWaker, Gate};

use crate::support::{hold, hold_all};

fn pools(count: usize) -> MultiPool {
    let each = Pool::builder().capacity(1).queue_depth(0);
    MultiBuilder::new(each).pools(count).build().unwrap()
}

#[testkit::test]
fn a_mapping_runs_on_the_workers_of_all_pools_and_returns_results_in_order() {
    let (pools, all) = (pools(3), Arc::new(Barrier::new(3)));
    // No piece ends before three workers are running.
    let results = pools.map(0..3, move |n| {
        all.wait();
        (n, thread::current().name().map(str::to_owned))
    });
    let results: Vec<_> = results.map(Result::unwrap).collect();
    assert!(results.iter().map(|(n, _)| *n).eq(0..3));
    let names: BTreeSet<_> = results.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[testkit::test]
fn an_error_stops_a_mapping_while_unordered_and_for_each_process_every_item() {
    let pools = pools(2);
    let failed = pools.try_map(0.., |n| if n == 9 { Err(n) } else { Ok(n) });
    let results: Vec<_> = failed.collect();
    assert_eq!(results.len(), 10);
    assert!(matches!(results.last(), Some(Err(MapError::Failed(9)))));
    let seen: BTreeSet<u32> = pools.map_unordered(0..1_000, |n| n).flatten().collect();
    assert_eq!(seen.len(), 1_000);
    pools.for_each(0..100, drop).unwrap();
    let failed = pools.try_for_each(0.., |n| if n == 3 { Err(n) } else { Ok(()) });
    assert!(matches!(failed, Err(MapError::Failed(3))));
}

#[testkit::test]
fn a_waiter_at_full_pools_gets_room_during_an_endless_mapping() {
    let pools = pools(2);
    let mut endless = pools.map(0_u64.., |n| n).window(64);
    endless.next().unwrap().unwrap();
    let caller = pools.clone();
    let other = thread::spawn(move || caller.spawn(|| 7).unwrap().join().unwrap());
    while !other.is_finished() {
        endless.next().unwrap().unwrap();
    }
    assert_eq!(other.join().unwrap(), 7);
}

#[testkit::test]
fn a_mapping_inside_a_task_needs_no_other_worker() {
    let pools = pools(2);
    let inner = pools.clone();
    let results = pools.map(0..8_u64, move |n| {
        inner.map(0..n, |m| m).map(Result::unwrap).sum::<u64>()
    });
    assert_eq!(results.map(Result::unwrap).sum::<u64>(), 56);
}

#[testkit::test]
fn a_scope_runs_on_the_workers_of_all_pools() {
    let (pools, all) = (pools(3), Barrier::new(3));
    let mut names = [const { None }; 3];
    pools.scope(|scope| {
        for name in &mut names {
            let all = &all;
            scope.submit(move || {
                all.wait();
                *name = thread::current().name().map(str::to_owned);
            });
        }
    });
    assert_eq!(BTreeSet::from(names).len(), 3);
}

#[testkit::test]
fn a_release_ends_a_mapping_over_several_pools() {
    let pools = pools(2);
    let ours = pools.clone();
    let results = pools.map(0.., move |n| {
        if n == 5 {
            ours.release();
        }
    });
    let released = results.last().unwrap();
    assert!(matches!(
        released,
        Err(MapError::Refused(SubmitError::Released(())))
    ));
    pools.wait_released().unwrap();
}

#[testkit::test]
fn unordered_results_of_a_fallible_mapping_arrive_as_items_end_until_the_first_error() {
    let (pools, gate) = (pools(2), Gate::new());
    let held = gate.clone();
    let mut source = 0_usize..;
    let results = pools.try_map_unordered(source.by_ref(), move |n| {
        if n == 0 {
            held.wait();
        }
        if n == 5 { Err(n) } else { Ok(n) }
    });
    let mut results = results.window(8);
    // The first item holds one worker, which delays no other item.
    for n in 1..5 {
        assert_eq!(results.next().unwrap().unwrap(), n);
    }
    let failed = results.next().unwrap();
    assert!(matches!(failed, Err(MapError::Failed(5))));
    assert!(results.next().is_none());
    drop(results);
    gate.open();
    assert!(source.start <= 5 + 8, "{} were pulled", source.start);
}

#[testkit::test]
fn a_stream_waits_for_room_in_any_pool_and_yields_panics_in_their_places() {
    let (pools, gates) = (pools(2), [Gate::new(), Gate::new()]);
    for gate in &gates {
        let held = gate.clone();
        pools.try_submit(move || held.wait()).unwrap();
        gate.wait_for_arrivals(1);
    }
    let waker = CountingWaker::new();
    let results = pools.map(0..100, |n| {
        assert!(n % 10 != 3, "as asked");
        n
    });
    let mut results = results.into_stream();
    let polled = Pin::new(&mut results).poll_next(&mut Context::from_waker(&waker.waker()));
    assert!(polled.is_pending());
    assert_eq!((pools.waiting(), waker.wakes()), (1, 0));
    gates[1].open(); // The other worker is held until the end.
    waker.wait_for_wakes(1);
    let results: Vec<_> = testkit::block_on(results.collect());
    assert_eq!(results.len(), 100);
    for (n, result) in (0..).zip(results) {
        match result {
            Ok(value) => assert!(value == n && n % 10 != 3),
            Err(MapError::Panicked(_)) => assert_eq!(n % 10, 3),
            Err(other) => panic!("{other}"),
        }
    }
    gates[0].open();
}

/// Two pools of one worker and an unlimited queue.
fn queueing(strategy: impl Strategy) -> MultiPool {
    let each = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited);
    let builder = MultiBuilder::new(each).pools(2);
    builder.strategy(strategy).build().unwrap()
}

/// Always chooses the same pool.
struct Only(usize);

impl Strategy for Only {
    fn choose(&self, _: &Loads<'_>) -> usize {
        self.0
    }
}

/// Makes every mapping call on pools of which one worker is held.
fn map_beside_a_blocked_worker(pools: &MultiPool) {
    for window in [1, 2, 100] {
        let ordered = pools.map(0..200_u32, |n| n).window(window);
        assert!(ordered.map(Result::unwrap).eq(0..200));
        let unordered = pools.map_unordered(0..200_u32, |n| n).window(window);
        assert_eq!(unordered.map(Result::unwrap).sum::<u32>(), 199 * 100);
        let stream = pools.map(0..200_u32, |n| n).window(window).into_stream();
        let values: Vec<u32> = testkit::block_on(stream.map(Result::unwrap).collect());
        assert!(values.into_iter().eq(0..200));
    }
    pools.for_each(0..200, drop).unwrap();
    let sum = pools.scope(|scope| {
        scope
            .map(0..200_u32, |n| n)
            .map(Result::unwrap)
            .sum::<u32>()
    });
    assert_eq!(sum, 199 * 100);
}

#[testkit::test]
fn a_member_whose_worker_is_blocked_delays_no_mapping() {
    for pools in [
        queueing(RoundRobin::new()),
        queueing(LeastTasks),
        queueing(Only(0)),
    ] {
        let gate = hold(&pools);
        map_beside_a_blocked_worker(&pools);
        gate.open();
    }
}

#[testkit::test]
fn a_mapping_started_at_busy_pools_continues_on_the_first_free_worker() {
    for free in [0, 1] {
        for streams in [false, true] {
            let pools = queueing(RoundRobin::new());
            let gates = hold_all(&pools, 2);
            let mapped = pools.map(0..200_u32, |n| n);
            let consumer = thread::spawn(move || {
                if streams {
                    let values = mapped.into_stream().map(Result::unwrap);
                    testkit::block_on(values.fold(0, |sum, n| sum + n))
                } else {
                    mapped.map(Result::unwrap).sum::<u32>()
                }
            });
            let queued = || pools.stats().queued;
            crate::support::until(|| queued() > 0);
            gates[free].open();
            assert_eq!(consumer.join().unwrap(), 199 * 100);
            gates.iter().for_each(Gate::open);
        }
    }
}

/// Panics while it is armed.
#[derive(Clone, Default)]
struct Panics(Arc<AtomicBool>);

impl Strategy for Panics {
    fn choose(&self, _: &Loads<'_>) -> usize {
        assert!(!self.0.load(SeqCst), "the strategy");
        0
    }
}

#[testkit::test]
fn a_scope_outlasts_its_tasks_if_the_strategy_panics() {
    let strategy = Panics::default();
    let pools = queueing(strategy.clone());
    let (gate, ended, left) = (Gate::new(), AtomicUsize::new(0), AtomicBool::new(false));
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        pools.scope(|scope| {
            for _ in 0..2 {
                scope.submit(|| {
                    gate.wait();
                    (0..1_000).for_each(|_| thread::yield_now());
                    assert!(!left.load(SeqCst), "the task ran on after its scope");
                    ended.fetch_add(1, SeqCst);
                });
            }
            gate.wait_for_arrivals(2);
            strategy.0.store(true, SeqCst);
            for _ in 0..2 {
                scope.submit(|| gate.open());
            }
        });
    }));
    left.store(true, SeqCst);
    gate.open();
    assert_eq!((unwound.is_ok(), ended.into_inner()), (true, 2));
}

#[testkit::test]
fn a_panic_of_the_strategy_reaches_the_caller_of_next_and_no_item_is_lost() {
    let strategy = Panics::default();
    let pools = queueing(strategy.clone());
    let mut results = pools.map(0..10, |n| n).window(1);
    let mut values = Vec::new();
    for armed in [false, true].into_iter().cycle() {
        strategy.0.store(armed, SeqCst);
        match catch_unwind(AssertUnwindSafe(|| results.next())) {
            Ok(None) => break,
            Ok(Some(value)) => values.push(value.unwrap()),
            Err(_) => assert!(armed),
        }
    }
    assert!(values.into_iter().eq(0..10));
}

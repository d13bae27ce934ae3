//! Mapping iterators over several pools. How it is done is pool-core's; here is that all the pools
//! take part, and that their waiters and their releases are heard.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::task::Context;
use std::thread;
use std::time::Duration;

use futures_lite::{Stream, StreamExt};
use multi_pool::MultiPool;
use pool_core::{MapError, Pool, SubmitError};
use testkit::{CountingWaker, Gate, watchdog};

/// Only a net.
const LIMIT: Duration = Duration::from_secs(60);

fn pools(count: usize) -> MultiPool {
    let each = Pool::builder().capacity(1).queue_depth(0);
    MultiPool::builder(each).pools(count).build().unwrap()
}

#[test]
fn the_workers_of_all_pools_take_part_and_results_come_in_order() {
    watchdog(LIMIT, || {
        let (pools, all) = (pools(3), Arc::new(Barrier::new(3)));
        // None ends before three workers are there.
        let results = pools.map(0..3, move |n| {
            all.wait();
            (n, thread::current().name().map(str::to_owned))
        });
        let results: Vec<_> = results.map(Result::unwrap).collect();
        assert!(results.iter().map(|(n, _)| *n).eq(0..3));
        let names: BTreeSet<_> = results.into_iter().map(|(_, name)| name).collect();
        assert_eq!(names.len(), 3, "{names:?}");
    });
}

#[test]
fn an_error_stops_it_and_unordered_and_for_each_see_every_item() {
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

#[test]
fn a_caller_that_waits_at_full_pools_is_let_in_beside_an_endless_mapping() {
    watchdog(LIMIT, || {
        let pools = pools(2);
        let mut endless = pools.map(0_u64.., |n| n).window(64);
        endless.next().unwrap().unwrap();
        let caller = pools.clone();
        let other = thread::spawn(move || caller.spawn(|| 7).unwrap().join().unwrap());
        while !other.is_finished() {
            endless.next().unwrap().unwrap();
        }
        assert_eq!(other.join().unwrap(), 7);
    });
}

#[test]
fn a_mapping_inside_a_task_needs_no_other_worker() {
    let pools = pools(2);
    let inner = pools.clone();
    let results = pools.map(0..8_u64, move |n| {
        inner.map(0..n, |m| m).map(Result::unwrap).sum::<u64>()
    });
    assert_eq!(results.map(Result::unwrap).sum::<u64>(), 56);
}

#[test]
fn the_workers_of_all_pools_take_part_in_a_scope() {
    watchdog(LIMIT, || {
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
    });
}

#[test]
fn a_release_ends_it() {
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

#[test]
fn unordered_results_of_a_mapping_that_may_fail_come_as_they_end_until_the_first_error() {
    watchdog(LIMIT, || {
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
        // The first item holds one worker, and nothing up.
        for n in 1..5 {
            assert_eq!(results.next().unwrap().unwrap(), n);
        }
        let failed = results.next().unwrap();
        assert!(matches!(failed, Err(MapError::Failed(5))));
        assert!(results.next().is_none());
        drop(results);
        gate.open();
        assert!(source.start <= 5 + 8, "{} were pulled", source.start);
    });
}

#[test]
fn as_a_stream_it_waits_for_the_room_of_any_pool_and_gives_panics_in_their_places() {
    watchdog(LIMIT, || {
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
        gates[1].open(); // The other one is held to the end.
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
    });
}

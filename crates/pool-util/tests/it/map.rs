//! Mappings of iterators.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use pool_core::{JoinError, ManualClock, Pool, QueueDepth, SubmitError, WithinWorker};
use pool_util::{MapError, PoolExt};
use testkit::Gate;

use crate::support::{end, queueing, until};

fn pool(capacity: usize) -> Pool {
    let built = Pool::builder().capacity(capacity).build();
    built.expect("a capacity is all that is needed")
}

/// Counts the live values, and their maximum.
#[derive(Clone, Default)]
struct Census(Arc<[AtomicUsize; 2]>);

impl Census {
    fn within<T>(&self, call: impl FnOnce() -> T) -> T {
        let now = self.0[0].fetch_add(1, SeqCst) + 1;
        self.0[1].fetch_max(now, SeqCst);
        let result = call();
        self.0[0].fetch_sub(1, SeqCst);
        result
    }

    fn most(&self) -> usize {
        self.0[1].load(SeqCst)
    }
}

#[testkit::test]
fn results_are_in_the_order_of_the_items() {
    let pool = pool(4);
    // Each item waits for the next one, if that is within the limit of running items.
    let gates: Arc<Vec<Gate>> = Arc::new((0..4).map(|_| Gate::new()).collect());
    let results = pool.map(0..4_usize, move |n| {
        if n < 3 {
            gates[n + 1].wait();
        }
        gates[n].open();
        n
    });
    let results: Vec<usize> = results.map(|result| result.expect("it runs")).collect();
    assert_eq!(results, [0, 1, 2, 3]);
}

#[testkit::test]
fn unordered_results_arrive_as_items_end() {
    let pool = pool(2);
    let gate = Gate::new();
    let held = gate.clone();
    let mut results = pool.map_unordered(0..2, move |n| {
        if n == 0 {
            held.wait();
        }
        n
    });
    assert_eq!(results.next().expect("one ends").expect("it runs"), 1);
    gate.open();
    assert_eq!(results.next().expect("one is left").expect("it runs"), 0);
    assert!(results.next().is_none() && results.next().is_none());
}

#[testkit::test]
fn every_item_is_mapped_once_with_16_workers_and_any_window() {
    let pool = pool(16);
    for window in [1, 2, 3, 7, 64, 10_000] {
        let results = pool.map(0..5_000_u64, |n| n * n).window(window);
        let sum: u64 = results.map(|result| result.expect("it runs")).sum();
        assert_eq!(sum, (0..5_000).map(|n| n * n).sum());
        let unordered = pool.map_unordered(0..5_000_u64, |n| n).window(window);
        let seen: BTreeSet<u64> = unordered.map(|result| result.expect("it runs")).collect();
        assert_eq!(seen.len(), 5_000);
    }
}

#[testkit::test]
fn the_source_is_pulled_on_demand_and_no_further_than_the_window() {
    let pool = pool(2);
    let (pulled, fetched) = (Cell::new(0_usize), Cell::new(0_usize));
    let source = std::iter::repeat_with(|| pulled.set(pulled.get() + 1));
    let mut endless = pool.map(source, |()| ()).window(5);
    assert_eq!(pulled.get(), 0);
    for _ in 0..1_000 {
        endless.next().expect("it is endless").expect("it runs");
        fetched.set(fetched.get() + 1);
        assert!(pulled.get() - fetched.get() <= 5, "{}", pulled.get());
    }
}

#[testkit::test]
fn the_capacity_limits_the_items_that_run_at_once() {
    let (pool, census) = (pool(3), Census::default());
    let counted = census.clone();
    let results = pool.map(0..500, move |_| counted.within(std::thread::yield_now));
    assert_eq!(results.window(100).flatten().count(), 500);
    assert!(census.most() <= 3, "{}", census.most());
}

#[testkit::test]
fn the_panic_of_an_item_is_its_result_and_other_items_continue() {
    let pool = pool(2);
    let results = pool.map(0..10, |n| assert!(n != 3, "three"));
    for (n, result) in results.enumerate() {
        match result {
            Ok(()) => assert_ne!(n, 3),
            Err(MapError::Panicked(panicked)) => {
                assert_eq!((n, panicked.message()), (3, Some("three")));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[testkit::test]
fn an_error_is_returned_after_earlier_results_and_ends_the_mapping() {
    let (pool, started) = (pool(2), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&started);
    let mut source = 0..1_000_000;
    let results = pool.try_map(&mut source, move |n| {
        counter.fetch_add(1, SeqCst);
        if n == 20 { Err("twenty") } else { Ok(n) }
    });
    let results: Vec<_> = results.window(8).collect();
    assert_eq!(results.len(), 21);
    for (n, result) in results.iter().enumerate() {
        match result {
            Ok(value) => assert_eq!(*value, n),
            Err(error) => assert!(n == 20 && matches!(error, MapError::Failed("twenty"))),
        }
    }
    // Only the items of the window had been pulled. The rest of the source is untouched.
    assert!(started.load(SeqCst) <= 28);
    assert!(source.next().is_some_and(|next| next <= 28));
}

/// A source of this length, and a counter of the pulled numbers.
fn counted(length: usize) -> (Arc<AtomicUsize>, impl Iterator<Item = usize> + Send) {
    let pulled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&pulled);
    let source = (0..length).inspect(move |_| _ = counter.fetch_add(1, SeqCst));
    (pulled, source)
}

#[testkit::test]
fn no_pulled_item_starts_after_an_error() {
    let (pool, (pulled, source)) = (pool(1), counted(8));
    let started = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&started);
    let mut results = pool
        .try_map(source, move |_| -> Result<(), &str> {
            counter.fetch_add(1, SeqCst);
            while pulled.load(SeqCst) < 8 {
                std::thread::yield_now();
            }
            Err("the first")
        })
        .window(8);
    assert!(matches!(
        results.next(),
        Some(Err(MapError::Failed("the first")))
    ));
    pool.wait_idle().expect("the caller is not a worker"); // The mapping still exists.
    assert_eq!(started.load(SeqCst), 1);
}

#[testkit::test]
fn unordered_results_of_a_fallible_mapping_arrive_as_items_end() {
    let (pool, gate) = (pool(2), Gate::new());
    let held = gate.clone();
    let mut results = pool.try_map_unordered(0..4, move |n| {
        if n == 0 {
            held.wait();
        }
        Ok::<_, ()>(n)
    });
    let mut next = || results.next().and_then(Result::ok);
    assert_eq!([next(), next(), next()], [Some(1), Some(2), Some(3)]);
    gate.open();
    assert_eq!([next(), next()], [Some(0), None]);
}

#[testkit::test]
fn the_first_error_or_panic_ends_an_unordered_mapping() {
    for panics in [false, true] {
        let (pool, (pulled, source)) = (pool(1), counted(8));
        let started = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&started);
        let fails = move |n| {
            counter.fetch_add(1, SeqCst);
            while pulled.load(SeqCst) < 8 {
                std::thread::yield_now();
            }
            assert!(!(panics && n == 1), "the second");
            if n == 1 { Err("the second") } else { Ok(n) }
        };
        let mut results = pool.try_map_unordered(source, fails).window(8);
        assert!(matches!(results.next(), Some(Ok(0))));
        match results.next() {
            Some(Err(MapError::Failed("the second"))) => assert!(!panics),
            Some(Err(MapError::Panicked(_))) => assert!(panics),
            other => panic!("{other:?}"),
        }
        assert!(results.next().is_none() && results.next().is_none());
        pool.wait_idle().expect("the caller is not a worker"); // The mapping still exists.
        assert_eq!(started.load(SeqCst), 2);
    }
}

#[testkit::test]
fn a_queued_task_runs_before_the_waiting_items() {
    let built = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited)
        .build();
    let pool = built.expect("it has a capacity");
    let (gate, (pulled, source)) = (Gate::new(), counted(1_000));
    let ran = Arc::new(AtomicUsize::new(0));
    let (counter, held) = (Arc::clone(&ran), gate.clone());
    let results = pool.map(source, move |n| {
        if n == 0 {
            held.wait();
        }
        counter.fetch_add(1, SeqCst)
    });
    let mapping = std::thread::spawn(move || results.window(1_000).flatten().count());
    while pulled.load(SeqCst) < 1_000 {
        std::thread::yield_now();
    }
    let other = pool.spawn(move || ran.load(SeqCst)).expect("there is room");
    gate.open();
    assert_eq!(
        other.join().expect("it ran"),
        1,
        "the first item's turn was over"
    );
    assert_eq!(mapping.join().expect("no panic"), 1_000);
}

#[testkit::test]
fn a_queued_task_runs_before_the_next_item_after_short_items() {
    let clock = ManualClock::new();
    let built = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited)
        .clock(clock.clone())
        .build();
    let pool = built.expect("it has a capacity");
    let (gate, (pulled, source)) = (Gate::new(), counted(3_000));
    let ran = Arc::new(AtomicUsize::new(0));
    let (counter, held) = (Arc::clone(&ran), gate.clone());
    // On the pool's clock, 1,000 items take no time, so turns grow to their maximum. After that,
    // each item takes longer than a turn.
    let results = pool.map(source, move |n| {
        if n == 1_000 {
            held.wait();
        }
        if n >= 1_000 {
            clock.advance(Duration::from_millis(2));
        }
        counter.fetch_add(1, SeqCst)
    });
    let mapping = std::thread::spawn(move || results.window(3_000).flatten().count());
    gate.wait_for_arrivals(1);
    while pulled.load(SeqCst) < 3_000 {
        std::thread::yield_now();
    }
    let other = pool.spawn(move || ran.load(SeqCst)).expect("there is room");
    gate.open();
    let before = other.join().expect("it ran");
    assert_eq!(
        before, 1_001,
        "the item that ran was the last one before it"
    );
    assert_eq!(mapping.join().expect("no panic"), 3_000);
}

#[testkit::test]
fn a_pause_ends_a_turn_after_the_running_item() {
    let clock = ManualClock::new();
    let built = Pool::builder().capacity(1).clock(clock.clone()).build();
    let pool = built.expect("it has a capacity");
    let (gate, ran) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (counter, held) = (Arc::clone(&ran), gate.clone());
    let results = pool.map(0..2_000, move |n| {
        if n == 1_000 {
            held.wait();
        }
        if n >= 1_000 {
            clock.advance(Duration::from_millis(2));
        }
        counter.fetch_add(1, SeqCst)
    });
    let mapping = std::thread::spawn(move || results.window(2_000).flatten().count());
    gate.wait_for_arrivals(1);
    pool.pause();
    gate.open();
    while pool.stats().busy > 0 {
        std::thread::yield_now();
    }
    assert_eq!(ran.load(SeqCst), 1_001);
    pool.resume();
    assert_eq!(mapping.join().expect("no panic"), 2_000);
}

#[testkit::test]
fn a_pause_stops_a_running_mapping_between_items() {
    let (pool, gate, ran) = (queueing(1), Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (counter, held) = (Arc::clone(&ran), gate.clone());
    let results = pool.map(0..1_000, move |n: u32| {
        counter.fetch_add(1, SeqCst);
        if n == 0 {
            held.wait();
        }
    });
    let mapping = std::thread::spawn(move || results.flatten().count());
    gate.wait_for_arrivals(1);
    pool.pause();
    gate.open();
    until(|| pool.idle() == 1);
    assert!(ran.load(SeqCst) < 1_000);
    pool.resume();
    assert_eq!(mapping.join().expect("no panic"), 1_000);
    end(&pool);
}

#[testkit::test]
fn a_mapping_uses_a_larger_capacity() {
    let (pool, gate) = (pool(1), Gate::new());
    let (first, all) = (gate.clone(), Barrier::new(8));
    // One worker has a window of four items. The eight items that wait for each other are pulled
    // after the mapping could notice the new capacity.
    let results = pool.map(0..12, move |n| match n {
        0 => first.wait(),
        1..4 => {}
        _ => _ = all.wait(),
    });
    let consumer = std::thread::spawn(move || results.flatten().count());
    gate.wait_for_arrivals(1);
    pool.tune(8).expect("it may have eight");
    gate.open();
    assert_eq!(consumer.join().expect("no panic"), 12);
}

#[testkit::test]
fn a_mapping_obeys_a_smaller_capacity() {
    let (pool, gate, census) = (pool(4), Gate::new(), Census::default());
    let (held, counted) = (gate.clone(), census.clone());
    let results = pool.map(0..200, move |n| {
        if n < 4 {
            held.wait();
        } else {
            counted.within(|| (0..10).for_each(|_| std::thread::yield_now()));
        }
    });
    let consumer = std::thread::spawn(move || results.flatten().count());
    gate.wait_for_arrivals(4);
    pool.tune(1).expect("it may have one");
    gate.open();
    assert_eq!(consumer.join().expect("no panic"), 200);
    assert_eq!(census.most(), 1);
}

#[testkit::test]
fn a_slow_source_does_not_delay_ready_results() {
    let pool = pool(1);
    let (ended, pulled) = (Arc::new(AtomicUsize::new(0)), Cell::new(0));
    let seen = Arc::clone(&ended);
    // Each item is pulled after the previous one has ended.
    let source = (0..100).inspect(|&n| {
        while ended.load(SeqCst) < n {
            std::thread::yield_now();
        }
        pulled.set(n + 1);
    });
    let mut results = pool
        .map(source, move |_| seen.fetch_add(1, SeqCst))
        .window(100);
    results.next().expect("there is a first").expect("it runs");
    // A worker counts an end just before its result can be fetched, so one or two may be late.
    assert!(
        pulled.get() <= 4,
        "{} were pulled before the first result came",
        pulled.get()
    );
}

#[testkit::test]
fn for_each_waits_for_every_call_and_stops_at_the_first_error() -> Result<(), Box<dyn Error>> {
    let (pool, census) = (pool(4), Census::default());
    let calls = Arc::new(AtomicUsize::new(0));
    let shared = Arc::clone(&calls);
    pool.for_each(0..100, move |_| _ = shared.fetch_add(1, SeqCst))?;
    assert_eq!(calls.load(SeqCst), 100);
    let counted = census.clone();
    let stopped = pool.try_for_each(0.., move |n| {
        counted.within(|| if n == 7 { Err("seven") } else { Ok(()) })
    });
    assert!(matches!(stopped, Err(MapError::Failed("seven"))));
    assert_eq!(census.0[0].load(SeqCst), 0, "all calls have ended");
    let panicked = pool.for_each([1], |_| panic!("one"));
    assert!(matches!(panicked, Err(MapError::Panicked(_))));
    Ok(())
}

#[testkit::test]
fn dropping_a_mapping_cancels_unstarted_items_which_can_be_taken_back() {
    let pool = pool(1);
    let (gate, calls) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (pulled, source) = counted(100);
    let (held, counter) = (gate.clone(), Arc::clone(&calls));
    let mut results = pool
        .map(source, move |n| {
            counter.fetch_add(1, SeqCst);
            if n > 0 {
                held.wait();
            }
            // If the source is slower than the first item, no more is pulled.
            while pulled.load(SeqCst) < 3 {
                std::thread::yield_now();
            }
        })
        .window(10);
    results.next().expect("there is a first").expect("it runs");
    gate.wait_for_arrivals(1); // The second item.
    let unstarted: Vec<usize> = results.into_unstarted().collect();
    assert!(!unstarted.is_empty() && unstarted.iter().all(|&n| (2..12).contains(&n)));
    gate.open();
    pool.wait_idle().expect("the second ends");
    assert_eq!(calls.load(SeqCst), 2);
}

#[testkit::test]
fn values_that_arrive_after_the_drop_of_a_mapping_are_dropped_on_their_worker() {
    struct Dropped(mpsc::Sender<bool>, Pool);
    impl Drop for Dropped {
        fn drop(&mut self) {
            _ = self.0.send(self.1.is_own_worker());
        }
    }
    let pool = pool(1);
    let (gate, (sender, receiver)) = (Gate::new(), mpsc::channel());
    let (held, ours) = (gate.clone(), pool.clone());
    let mut results = pool.map(0..2, move |n| {
        if n == 1 {
            held.wait();
        }
        Dropped(sender.clone(), ours.clone())
    });
    let canceller = results.canceller(); // It refers to the mapping, and keeps no value.
    drop(results.next());
    gate.wait_for_arrivals(1);
    drop(results);
    gate.open();
    pool.wait_idle().expect("the second ends");
    let on_worker = [receiver.try_recv(), receiver.try_recv()];
    drop(canceller);
    assert_eq!(on_worker, [Ok(false), Ok(true)]);
}

#[testkit::test]
fn a_panicking_source_loses_no_result_and_may_be_pulled_again() {
    let pool = pool(2);
    let mut n = 0;
    let source = std::iter::from_fn(move || {
        n += 1;
        assert!(n != 5, "the source");
        (n < 10).then_some(n)
    });
    let mut results = pool.map(source, |n| n);
    let (mut values, mut panics) = (Vec::new(), 0);
    loop {
        match catch_unwind(AssertUnwindSafe(|| results.next())) {
            Ok(Some(result)) => values.push(result.expect("it runs")),
            Ok(None) => break,
            Err(_) => panics += 1,
        }
    }
    assert_eq!((values, panics), (vec![1, 2, 3, 4, 6, 7, 8, 9], 1));
}

#[testkit::test]
fn nested_mappings_run_on_the_pools_only_worker() {
    for policy in [
        WithinWorker::RunInPlace,
        WithinWorker::Block,
        WithinWorker::Refuse,
    ] {
        let built = Pool::builder()
            .capacity(1)
            .queue_depth(0)
            .within_worker(policy)
            .build();
        let pool = built.expect("it has a capacity");
        let inner = pool.clone();
        let nested = move |n: u64| -> u64 {
            let deeper = inner.clone();
            let squares = inner.map(0..n, move |m| {
                let cubes = deeper.map(0..m, |k| k);
                cubes.map(|cube| cube.expect("it runs")).sum::<u64>()
            });
            squares.map(|square| square.expect("it runs")).sum()
        };
        let results = pool.map(0..6, nested);
        let sum: u64 = results.map(|result| result.expect("it runs")).sum();
        assert_eq!(sum, 15, "{policy:?}");
    }
}

#[testkit::test]
fn workers_that_wait_for_their_own_mappings_do_not_deadlock() {
    let built = Pool::builder()
        .capacity(4)
        .queue_depth(QueueDepth::Unlimited)
        .build();
    let pool = built.expect("it has a capacity");
    let tasks: Vec<_> = (0..16_u64)
        .map(|_| {
            let inner = pool.clone();
            let task = move || -> u64 {
                let results = inner.map(0..100_u64, |n| n).window(3);
                results.map(|result| result.expect("it runs")).sum()
            };
            pool.spawn(task).expect("there is room")
        })
        .collect();
    for task in tasks {
        assert_eq!(task.join().expect("it ends"), 4950);
    }
}

#[testkit::test]
fn the_nesting_limit_refuses_no_result_of_a_mapping() {
    let built = Pool::builder().capacity(1).nesting_limit(0).build();
    let pool = built.expect("it has a capacity");
    let (outer, inner) = (pool.clone(), pool.clone());
    let task = pool.spawn(move || {
        let rows = outer.map(0..10_usize, move |n| inner.map(0..n, |m| m).count());
        rows.map(|row| row.expect("it runs")).sum::<usize>()
    });
    let sum = task.expect("there is room").join().expect("it ends");
    assert_eq!(sum, 45);
}

#[testkit::test]
fn other_tasks_run_during_an_endless_mapping() {
    let built = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited)
        .build();
    let pool = built.expect("it has a capacity");
    let mut endless = pool.map(0_u64.., |n| n).window(1_000);
    endless.next().expect("it is endless").expect("it runs");
    let other = pool.spawn(|| "ran").expect("there is room");
    while !other.is_finished() {
        endless.next().expect("it is endless").expect("it runs");
    }
    assert_eq!(other.join().expect("it ran"), "ran");
}

#[testkit::test]
fn a_waiter_gets_room_during_an_endless_mapping() {
    let built = Pool::builder().capacity(2).queue_depth(0).build();
    let pool = built.expect("it has a capacity");
    let mut endless = pool.map(0_u64.., |n| n).window(64);
    endless.next().expect("it is endless").expect("it runs");
    let caller = pool.clone();
    let other = std::thread::spawn(move || caller.spawn(|| 7).expect("it is admitted").join());
    while !other.is_finished() {
        endless.next().expect("it is endless").expect("it runs");
    }
    assert_eq!(other.join().expect("no panic").expect("it ran"), 7);
}

#[testkit::test]
fn a_mapping_waits_for_room_in_a_nonblocking_pool() {
    let built = Pool::builder()
        .capacity(1)
        .queue_depth(0)
        .nonblocking(true)
        .build();
    let pool = built.expect("it has a capacity");
    let gate = Gate::new();
    let held = gate.clone();
    pool.submit(move || held.wait()).expect("there is room");
    gate.wait_for_arrivals(1);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| pool.map(0..3, |n| n).map(Result::ok).collect::<Vec<_>>());
        while pool.stats().waiting == 0 {
            std::thread::yield_now();
        }
        gate.open();
        assert_eq!(first.join().expect("no panic"), [Some(0), Some(1), Some(2)]);
    });
}

#[testkit::test]
fn a_released_pool_ends_a_mapping_with_an_error_and_returns_the_items() {
    let pool = pool(2);
    pool.release();
    let mut results = pool.map(0..100, |n| n);
    let first = results.next();
    assert!(matches!(
        first,
        Some(Err(MapError::Refused(SubmitError::Released(()))))
    ));
    assert!(results.next().is_none());
    assert_eq!(results.into_unstarted().collect::<Vec<_>>(), [0]);
}

#[testkit::test]
fn a_release_during_a_mapping_loses_no_result_and_ends_it() {
    for now in [false, true] {
        let pool = pool(2);
        let ours = pool.clone();
        let results = pool.map(0_usize.., move |n| {
            if n == 10 && now {
                ours.release_now();
            } else if n == 10 {
                ours.release();
            }
            n
        });
        let mut results: Vec<_> = results.collect();
        let last = results.pop();
        assert!(matches!(
            last,
            Some(Err(MapError::Refused(SubmitError::Released(()))))
        ));
        assert!(results.len() > 10);
        for (n, result) in results.into_iter().enumerate() {
            assert_eq!(result.expect("it ran"), n);
        }
        pool.wait_released().expect("nothing runs any more");
    }
}

#[testkit::test]
fn a_mapping_with_items_keeps_its_pool_open() {
    let results = pool(2).map(0..50, |n| n);
    assert_eq!(results.flatten().count(), 50);
}

#[testkit::test]
fn the_panic_hook_gets_a_mappings_panic_and_its_error_works_with_question_mark()
-> Result<(), Box<dyn Error + Send + Sync>> {
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let hook = move |_: &pool_core::TaskPanic<'_>| _ = counter.fetch_add(1, SeqCst);
    let pool = Pool::builder().capacity(1).panic_hook(hook).build()?;
    let failed = || -> Result<Vec<()>, Box<dyn Error + Send + Sync>> {
        Ok(pool.map([1], |_| panic!("one")).collect::<Result<_, _>>()?)
    };
    let error = failed().expect_err("it panics").to_string();
    assert!(error.contains("one"), "{error}");
    assert_eq!(seen.load(SeqCst), 1);
    let joined: Result<(), JoinError> = pool.spawn(|| ())?.join();
    joined?;
    Ok(())
}

#[testkit::test]
fn a_cancelled_mapping_returns_ready_results_without_waiting_for_running_items() {
    let pool = pool(1);
    let (gate, (sender, receiver)) = (Gate::new(), mpsc::channel());
    let held = gate.clone();
    let mut results = pool.map(0.., move |n| {
        if n == 2 {
            held.wait();
        }
        sender.send(n)
    });
    let canceller = results.canceller();
    let late = gate.clone();
    let cancelling = std::thread::spawn(move || {
        // Items 0 and 1 have ended. Item 2 ends after the drop of the mapping.
        late.wait_for_arrivals(1);
        canceller.cancel();
        canceller.cancel();
    });
    let fetched = results.by_ref().flatten().count();
    assert_eq!(fetched, 2);
    assert!(results.next().is_none());
    cancelling.join().expect("it does not panic");
    gate.open();
    pool.wait_idle().expect("2 ends");
    drop(results);
    assert_eq!(receiver.into_iter().collect::<Vec<i32>>(), [0, 1, 2]);
}

#[testkit::test]
fn ready_results_are_returned_without_waiting() {
    let pool = pool(1);
    let (first, gate) = (Gate::new(), Gate::new());
    let gates = [Some(first.clone()), None, Some(gate.clone())];
    let map = move |n: usize| {
        gates[n].iter().for_each(Gate::wait);
        n
    };
    // No item ends before all are pulled: `next` would return with the first result. The source ends when item 2
    // runs. By then 0 and 1 have ended, and are fetched together.
    let end = std::iter::from_fn(|| {
        first.open();
        gate.wait_for_arrivals(1);
        None
    });
    let mut results = pool.map((0..3).chain(end), map).window(8);
    let mut next = || (results.next().and_then(Result::ok), results.ready());
    assert_eq!([next(), next()], [(Some(0), 1), (Some(1), 0)]);
    gate.open();
    assert_eq!([next(), next()], [(Some(2), 0), (None, 0)]);
}

#[testkit::test]
fn a_canceller_does_not_keep_the_function_or_the_items_alive() {
    let (pool, kept) = (pool(1), Arc::new(()));
    let held = Arc::clone(&kept);
    let results = pool.map(0..3, move |_| Arc::clone(&held));
    let canceller = results.canceller();
    assert_eq!(results.flatten().count(), 3);
    pool.wait_idle().expect("the caller is not a worker");
    assert_eq!(Arc::strong_count(&kept), 1);
    canceller.cancel();
}

#[cfg(unix)]
#[testkit::test]
fn a_for_each_whose_source_forks_fails_in_the_child() {
    let test = "map::a_for_each_whose_source_forks_fails_in_the_child";
    let ended = testkit::in_child(test, || {
        let (pool, gate, parent) = (pool(2), Gate::new(), std::process::id());
        let (held, mut forked) = (gate.clone(), 0);
        let source = (0..3).inspect(|&n| {
            if n == 1 {
                gate.wait_for_arrivals(1); // The pool's locks are free.
                // SAFETY: the child runs only the code below, and leaves by `_exit`.
                forked = unsafe { libc::fork() };
                if std::process::id() == parent {
                    gate.open();
                }
            }
        });
        let ended = pool.for_each(source, move |_| held.wait());
        if std::process::id() != parent {
            let refused = matches!(ended, Err(MapError::Refused(SubmitError::Forked(()))));
            // SAFETY: `_exit` has no preconditions.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = -1;
        // SAFETY: `status` is a valid, exclusive reference.
        let waited = unsafe { libc::waitpid(forked, &raw mut status, 0) };
        assert_eq!((waited, status), (forked, 0));
        ended.expect("all ran in the parent");
    });
    ended.expect("the child exits by itself");
}

#[cfg(feature = "stream")]
mod streams {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Wake, Waker};

    use futures_lite::{Stream, StreamExt, future::block_on};

    use super::*;

    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[testkit::test]
    fn a_stream_yields_every_result_in_order_with_any_queue_depth() {
        for depth in [0, 1, 1_000] {
            let built = Pool::builder().capacity(2).queue_depth(depth).build();
            let pool = built.expect("it has a capacity");
            let results = pool.map(0..2_000_u32, |n| n).into_stream();
            let values: Vec<u32> =
                block_on(results.map(|result| result.expect("it runs")).collect());
            assert!(values.into_iter().eq(0..2_000));
        }
    }

    #[testkit::test]
    fn a_stream_at_a_full_pool_waits_without_blocking_and_leaves_the_wait_queue_with_its_drop() {
        let built = Pool::builder().capacity(1).queue_depth(0).build();
        let (pool, gate) = (built.expect("it has a capacity"), Gate::new());
        let held = gate.clone();
        pool.submit(move || held.wait()).expect("there is room");
        gate.wait_for_arrivals(1);
        let counts = Arc::new(Counts(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&counts));
        let mut context = Context::from_waker(&waker);
        let mut dropped = pool.map(0..3, |n| n).into_stream();
        assert!(Pin::new(&mut dropped).poll_next(&mut context).is_pending());
        let mut kept = pin!(pool.map(0..3, |n| n).into_stream());
        for _ in 0..10 {
            assert!(kept.as_mut().poll_next(&mut context).is_pending());
        }
        assert_eq!(
            pool.stats().waiting,
            2,
            "each has one entry in the wait queue"
        );
        drop(dropped);
        assert_eq!(pool.stats().waiting, 1);
        gate.open();
        let values: Vec<i32> = block_on(kept.map(|result| result.expect("it runs")).collect());
        assert_eq!(values, [0, 1, 2]);
        assert!(counts.0.load(SeqCst) > 0);
    }

    #[testkit::test]
    fn a_stream_of_a_released_pool_ends_with_an_error() {
        let pool = pool(1);
        pool.release();
        let mut results = pin!(pool.map(0..3, |n| n).into_stream());
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Some(Err(refused))) = results.as_mut().poll_next(&mut context) else {
            panic!("it is refused");
        };
        assert!(matches!(
            refused,
            MapError::Refused(SubmitError::Released(()))
        ));
        assert!(matches!(results.poll_next(&mut context), Poll::Ready(None)));
    }

    #[testkit::test]
    fn an_error_ends_a_stream_after_earlier_results() {
        let (pool, (pulled, source)) = (pool(1), counted(8));
        let started = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&started);
        let results = pool.try_map(source, move |n| {
            counter.fetch_add(1, SeqCst);
            while pulled.load(SeqCst) < 8 {
                std::thread::yield_now();
            }
            if n == 2 { Err("the third") } else { Ok(n) }
        });
        let mut results = results.window(8).into_stream();
        let mut next = || block_on(results.next());
        assert!(matches!(next(), Some(Ok(0))) && matches!(next(), Some(Ok(1))));
        assert!(matches!(next(), Some(Err(MapError::Failed("the third")))));
        assert!(next().is_none() && next().is_none());
        pool.wait_idle().expect("the caller is not a worker"); // The stream still exists.
        assert_eq!(started.load(SeqCst), 3);
    }

    #[testkit::test]
    fn a_stream_yields_the_panic_of_an_item_in_its_place_and_continues() {
        let pool = pool(2);
        let results = pool.map(0..10, |n| assert!(n != 3, "three"));
        let results: Vec<_> = block_on(results.into_stream().collect());
        assert_eq!(results.len(), 10);
        for (n, result) in results.into_iter().enumerate() {
            match result {
                Ok(()) => assert_ne!(n, 3),
                Err(MapError::Panicked(it)) => assert_eq!((n, it.message()), (3, Some("three"))),
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[testkit::test]
    fn a_stream_with_a_panicking_source_loses_no_result_and_may_be_polled_again() {
        let (pool, mut n) = (pool(2), 0);
        let source = std::iter::from_fn(move || {
            n += 1;
            assert!(n != 5, "the source");
            (n < 10).then_some(n)
        });
        let mut results = pool.map(source, |n| n).into_stream();
        let (mut values, mut panics) = (Vec::new(), 0);
        loop {
            match catch_unwind(AssertUnwindSafe(|| block_on(results.next()))) {
                Ok(Some(result)) => values.push(result.expect("it runs")),
                Ok(None) => break,
                Err(_) => panics += 1,
            }
        }
        assert_eq!((values, panics), (vec![1, 2, 3, 4, 6, 7, 8, 9], 1));
    }

    #[testkit::test]
    fn a_dropped_stream_starts_no_item_and_calls_no_waker() {
        let (pool, gate) = (pool(1), Gate::new());
        let (held, started) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
        let (counter, kept) = (Arc::clone(&started), Arc::new(()));
        let items = std::iter::repeat_with({
            let kept = Arc::clone(&kept);
            move || Arc::clone(&kept)
        });
        let results = pool.map(items, move |item| {
            if counter.fetch_add(1, SeqCst) > 0 {
                held.wait();
            }
            item // Kept as its result.
        });
        let mut results = results.window(4).into_stream();
        assert!(block_on(results.next()).is_some_and(|first| first.is_ok()));
        gate.wait_for_arrivals(1); // The second item.
        let counts = Arc::new(Counts(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&counts));
        let polled = Pin::new(&mut results).poll_next(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop((results, waker));
        assert_eq!(Arc::strong_count(&counts), 1, "no worker has it");
        gate.open();
        pool.wait_idle().expect("the second ends");
        assert_eq!((started.load(SeqCst), counts.0.load(SeqCst)), (2, 0));
        pool.release();
        pool.wait_released().expect("the caller is not a worker");
        assert_eq!(
            (Arc::strong_count(&counts), Arc::strong_count(&kept)),
            (1, 1)
        );
    }
}

#[testkit::test]
fn the_statistics_count_each_item_and_scoped_task_that_panics() {
    let pool = Pool::builder().capacity(2).build().unwrap();
    let failed = pool
        .map(0..10, |n| assert!(n % 2 == 0))
        .filter(Result::is_err);
    assert_eq!(failed.count(), 5);
    assert!(pool.for_each(0..1, |_| panic!("the only item")).is_err());
    pool.scope(|scope| {
        assert!(scope.spawn(|| panic!("has a handle")).join().is_err());
        assert!(scope.map(0..3, |_| panic!("an item")).all(|it| it.is_err()));
    });
    let submitted = || pool.scope(|scope| scope.submit(|| panic!("has none")));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(submitted)).is_err());
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(stats.panicked, 5 + 1 + 1 + 3 + 1);
    assert_eq!(stats.submitted, stats.completed + stats.panicked);
}

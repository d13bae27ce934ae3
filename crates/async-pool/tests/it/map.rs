//! Maps over iterators and streams.

use std::cell::Cell;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use async_pool::{AsyncPool, JoinError};
use futures_lite::future::block_on;
use futures_lite::stream;

use crate::{Live, pool};

#[testkit::test]
fn results_come_in_the_order_of_the_items() {
    let pool = pool(2, 8);
    let mut map = pool.map(0..100_u32, 8, |n| async move {
        for _ in 0..(n % 3) {
            async_pool::yield_now().await;
        }
        n
    });
    for n in 0..100 {
        assert_eq!(block_on(map.next_async()).unwrap().unwrap(), n);
    }
    assert!(block_on(map.next_async()).is_none());
    assert!(block_on(map.next_async()).is_none());
}

#[testkit::test]
fn an_unordered_map_returns_what_has_ended() {
    let pool = pool(1, 8);
    let mut map = pool
        .map([true, false], 2, |blocks| async move {
            if blocks {
                pending::<()>().await;
            }
            blocks
        })
        .unordered();
    assert!(!block_on(map.next_async()).unwrap().unwrap());
    map.cancel();
    assert!(matches!(
        block_on(map.next_async()),
        Some(Err(JoinError::Cancelled))
    ));
    assert!(block_on(map.next_async()).is_none());
}

#[testkit::test]
fn no_item_is_pulled_without_room_or_beyond_the_limit() {
    for (capacity, limit, pulled) in [(3, 10, 3), (10, 3, 3)] {
        let pool = pool(1, capacity);
        let count = Cell::new(0);
        // `Cell` is not `Sync`, so the iterator owns it and reports to an atomic.
        let seen = Arc::new(AtomicUsize::new(0));
        let report = Arc::clone(&seen);
        let items = (0..100).inspect(move |_| {
            count.set(count.get() + 1);
            report.store(count.get(), SeqCst);
        });
        let mut map = pool.map(items, limit, |_| pending::<()>());
        assert!(
            map.poll_next(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        assert_eq!(seen.load(SeqCst), pulled);
        assert_eq!(pool.stats().live, pulled);
        drop(map);
        pool.wait_idle().unwrap();
        assert_eq!((pool.stats().cancelled, pool.stats().waiting), (3, 0));
    }
}

#[testkit::test]
fn futures_run_on_while_the_consumer_does_not_poll() {
    let pool = pool(2, 8);
    let mut map = pool.map(0..9, 4, ready).unordered();
    assert!(block_on(map.next_async()).is_some());
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 5);
}

#[testkit::test]
fn the_first_failure_ends_a_map_after_its_futures_were_dropped() {
    let pool = pool(2, 8);
    let live = Live::new();
    let run = pool.for_each_concurrent(0..100, 4, |n| {
        let guard = live.one();
        async move {
            let _guard = guard;
            if n == 2 {
                return Err(n);
            }
            pending().await
        }
    });
    assert!(matches!(block_on(run), Ok(Err(2))));
    assert_eq!((live.count(), pool.stats().in_flight), (0, 0));
    assert_eq!(pool.stats().submitted, 4);
    let run = pool.for_each_concurrent(0..3, 4, |n| async move {
        assert_ne!(n, 1, "no second item");
        Ok::<_, ()>(())
    });
    assert!(matches!(block_on(run), Err(JoinError::Panicked(_))));
}

#[testkit::test]
fn a_released_pool_ends_a_map_after_the_results_that_it_has() {
    let pool = pool(1, 8);
    let mut map = pool.map(0..10, 2, ready);
    assert!(block_on(map.next_async()).unwrap().is_ok());
    pool.release();
    let rest: Vec<_> = std::iter::from_fn(|| block_on(map.next_async())).collect();
    assert!(matches!(
        &rest[..],
        [Ok(1), Ok(2), Err(JoinError::Released)]
    ));
}

#[testkit::test]
fn tasks_that_map_in_their_own_full_pool_end() {
    for is_ordered in [true, false] {
        let pool = pool(2, 2);
        let outer = pool.group();
        for _ in 0..2 {
            let inner = pool.clone();
            outer
                .spawn(async move {
                    let map = inner.map(0..20, 4, |n| async move {
                        async_pool::yield_now().await;
                        n
                    });
                    let mut map = if is_ordered { map } else { map.unordered() };
                    let mut sum = 0;
                    while let Some(n) = map.next_async().await {
                        sum += n.unwrap();
                    }
                    sum
                })
                .unwrap();
        }
        for _ in 0..2 {
            assert_eq!(outer.next().unwrap().unwrap(), 190);
        }
    }
}

#[testkit::test]
fn a_stream_is_a_source_and_a_map_is_a_stream() {
    use stream::StreamExt;
    let pool = pool(2, 8);
    let items = stream::iter(0..50_u32);
    let map = pool.map_stream(items, 4, |n| async move { n });
    let all: Result<Vec<_>, _> = block_on(map.try_collect());
    assert_eq!(all.unwrap(), (0..50).collect::<Vec<_>>());
    let total = Arc::new(AtomicUsize::new(0));
    let run = pool
        .map_stream(stream::iter(0..50), 4, |n| {
            let total = Arc::clone(&total);
            async move {
                total.fetch_add(n, SeqCst);
                Ok::<_, ()>(())
            }
        })
        .unordered();
    block_on(run.finish()).unwrap().unwrap();
    assert_eq!(total.load(SeqCst), 1225);
}

#[testkit::test]
fn a_source_that_is_not_ready_holds_no_room() {
    let pool = pool(1, 1);
    let mut map = pool.map_stream(stream::pending::<u32>(), 4, ready);
    let poll: Poll<_> = map.poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending());
    assert_eq!(pool.stats().reserved, 0);
}

#[testkit::test]
fn a_panicking_source_or_function_returns_its_room() {
    let pool: AsyncPool = pool(1, 1);
    let mut map = pool.map([1], 4, |_| -> std::future::Ready<()> {
        panic!("no future")
    });
    let next = std::panic::AssertUnwindSafe(|| block_on(map.next_async()));
    assert!(std::panic::catch_unwind(next).is_err());
    assert_eq!(pool.stats().reserved, 0);
}

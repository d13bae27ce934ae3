//! A million entries and their memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use delay_queue::{DelayQueue, ManualClock, ReserveError};

use crate::support::{SECOND, queue};

const MILLION: u32 = 1_000_000;

#[test]
fn a_million_cancelled_entries_release_their_memory() {
    let (queue, _clock) = queue();
    let ids: Vec<_> = (0..MILLION)
        .map(|n| queue.push(n, n * SECOND).unwrap())
        .collect();
    assert!(queue.capacity() >= MILLION as usize);
    let last = ids.len() - 1;
    for (n, id) in (0..).zip(&ids[..last]) {
        assert_eq!(queue.cancel(*id), Some(n));
    }
    assert_eq!(queue.len(), 1);
    queue.cancel(ids[last]);
    queue.shrink_to(0);
    assert!(queue.capacity() < 10_000, "{}", queue.capacity());
}

#[test]
fn an_empty_queue_keeps_no_memory_of_a_burst() {
    const BURST: u64 = 100_000;
    let burst = |queue: &DelayQueue<u64, ManualClock>, clock: &ManualClock, n: u64| {
        let ids: Vec<_> = (0..n)
            .map(|n| queue.push(n, Duration::from_nanos(n)).unwrap())
            .collect();
        let full = queue.capacity();
        clock.advance(SECOND);
        for id in &ids[..ids.len() / 2] {
            queue.cancel(*id).unwrap();
        }
        while queue.try_take().is_ok() {}
        for id in ids {
            assert_eq!(queue.cancel(id), None, "it has left");
        }
        full
    };
    let (queue, clock) = crate::support::queue::<u64>();
    for _ in 0..3 {
        assert!(burst(&queue, &clock, BURST) >= 100_000);
        assert!(queue.capacity() < 10_000, "{}", queue.capacity());
    }
    let kept = queue.capacity();
    for _ in 0..1_000 {
        burst(&queue, &clock, 3);
        assert_eq!(queue.capacity(), kept, "short queues allocate nothing");
    }
    queue.reserve(50_000);
    burst(&queue, &clock, BURST);
    assert!((50_000..100_000).contains(&queue.capacity()));
    queue.shrink_to(0);
    burst(&queue, &clock, BURST);
    assert!(queue.capacity() < 10_000);
}

#[test]
fn a_million_entries_are_cleared_at_once() {
    let (queue, clock) = queue();
    for n in 0..MILLION {
        queue.push(n, Duration::from_nanos(u64::from(n))).unwrap();
    }
    queue.clear();
    assert_eq!((queue.len(), queue.capacity()), (0, 0));
    queue.push(7, SECOND).unwrap();
    clock.advance(SECOND);
    assert_eq!(queue.try_take().unwrap().value, 7);
}

#[test]
fn close_now_returns_a_million_entries_in_order() {
    let (queue, _clock) = queue();
    for n in 0..MILLION {
        // All of them, once, in an order far from that of their times.
        let n = u64::from(n) * 611_953 % u64::from(MILLION);
        queue.push(n, Duration::from_nanos(n)).unwrap();
    }
    let left = queue.close_now();
    assert!(
        left.into_iter()
            .map(|left| left.value)
            .eq(0..u64::from(MILLION))
    );
}

#[test]
fn a_requested_capacity_is_allocated_once() {
    let builder = DelayQueue::<u64>::builder().clock(ManualClock::new());
    let queue = builder.capacity(1_000).build().unwrap();
    let capacity = queue.capacity();
    assert!(capacity >= 1_000);
    for n in 0..1_000 {
        queue.push(n, SECOND).unwrap();
    }
    assert_eq!(queue.capacity(), capacity);
}

#[test]
fn reserve_allocates_at_once_and_later_pushes_do_not() {
    let (queue, _clock) = queue();
    queue.push(0, SECOND).unwrap();
    queue.reserve(1_000);
    let capacity = queue.capacity();
    assert!(capacity > 1_000);
    for n in 0..1_000 {
        queue.push(n, SECOND).unwrap();
    }
    assert_eq!(queue.capacity(), capacity);
}

#[test]
fn reserve_is_limited_by_the_bound() {
    let builder = DelayQueue::<u64>::builder().clock(ManualClock::new());
    let queue = builder.bound(10).build().unwrap();
    queue.push(1, SECOND).unwrap();
    queue.try_reserve(usize::MAX).unwrap();
    assert!((10..1_000).contains(&queue.capacity()));
}

/// No machine has memory for as many of these values as a queue may have entries.
type Vast = [u64; 1 << 28];

#[test]
fn a_failed_allocation_is_an_error_and_the_queue_stays_usable() {
    let queue = DelayQueue::<Box<Vast>, _>::with_clock(ManualClock::new());
    assert_eq!(
        queue.try_reserve(10),
        Ok(()),
        "of pointers there can be some"
    );
    let queue = DelayQueue::<Vast, _>::with_clock(ManualClock::new());
    let refused = queue.try_reserve(usize::MAX).unwrap_err();
    assert!(matches!(refused, ReserveError::NoMemory(_)));
    let panicked = catch_unwind(AssertUnwindSafe(|| queue.reserve(usize::MAX)));
    assert!(panicked.is_err());
    // The lock is free. No method that moves a value is called, because a value would not fit on
    // the stack.
    assert_eq!((queue.len(), queue.capacity()), (0, 0));
}

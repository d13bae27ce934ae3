//! A million entries, and their memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use delay_queue::{DelayQueue, ManualClock, ReserveError};

use crate::support::{SECOND, queue};

const MILLION: u32 = 1_000_000;

#[test]
fn a_million_cancelled_entries_give_their_memory_back() {
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
fn a_million_entries_are_closed_for_good_in_order() {
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
fn capacity_is_allocated_once_when_asked_for() {
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
fn reserved_memory_is_allocated_at_once_and_no_push_asks_for_more() {
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
fn no_more_memory_is_reserved_than_the_bound_allows_entries() {
    let builder = DelayQueue::<u64>::builder().clock(ManualClock::new());
    let queue = builder.bound(10).build().unwrap();
    queue.push(1, SECOND).unwrap();
    queue.try_reserve(usize::MAX).unwrap();
    assert!((10..1_000).contains(&queue.capacity()));
}

/// Of such values, no memory holds as many as a queue does.
type Vast = [u64; 1 << 28];

#[test]
fn memory_that_cannot_be_had_is_refused_and_the_queue_goes_on() {
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
    // The lock is free. No method that moves a value is called: it would not fit on the stack.
    assert_eq!((queue.len(), queue.capacity()), (0, 0));
}

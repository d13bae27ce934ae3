//! A million entries, and their memory.

use std::time::Duration;

use delay_queue::{DelayQueue, ManualClock};

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

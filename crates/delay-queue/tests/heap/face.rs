//! The documented behaviour of each method.

use std::panic::{AssertUnwindSafe, catch_unwind};

use delay_queue::{CheckedOut, DelayHeap, Entry, EntryId, NEVER, ReserveError};

fn assert_shareable<T: Send + Sync + 'static>() {}

#[test]
fn all_types_are_send_and_sync() {
    assert_shareable::<DelayHeap<u64>>();
    assert_shareable::<EntryId>();
    assert_shareable::<Entry<u64>>();
    assert_shareable::<CheckedOut<u64>>();
}

#[test]
fn a_new_heap_allocates_nothing() {
    assert_eq!(DelayHeap::<u64>::new().capacity(), 0);
    assert_eq!(DelayHeap::<u64>::default().capacity(), 0);
}

#[test]
fn try_push_succeeds_below_the_limit() {
    let mut heap = DelayHeap::new();
    let id = heap.try_push("a", 1).unwrap();
    assert_eq!(heap.get(id), Some(&"a"));
}

#[test]
fn a_removed_entry_has_its_id_time_and_value() {
    for count in [1, 1_000] {
        let mut heap = DelayHeap::new();
        let ids: Vec<_> = (0..count)
            .map(|value| heap.push(value, value + 5))
            .collect();
        for (value, id) in (0..).zip(ids) {
            let due = value + 5;
            assert_eq!(heap.remove(id), Some(Entry { id, due, value }));
        }
    }
}

#[test]
fn values_can_be_changed_in_place() {
    let mut heap = DelayHeap::new();
    let id = heap.push(1, 1);
    *heap.get_mut(id).unwrap() += 1;
    assert_eq!(heap.pop().unwrap().value, 2);
}

#[test]
fn ready_entries_are_counted_up_to_the_limit_at_every_moment() {
    for count in [0, 1, 10, 1_000] {
        let mut heap = DelayHeap::new();
        for value in 0..count {
            heap.push(value, value * 7 % 1_000);
        }
        let mut dues: Vec<_> = heap.iter().map(|entry| entry.due).collect();
        dues.sort_unstable();
        for now in [0, 1, 6, 7, 500, 998, 999, NEVER] {
            let ready = dues.iter().filter(|due| **due <= now).count();
            for limit in [0, 1, 3, 900, usize::MAX] {
                assert_eq!(heap.count_ready(now, limit), ready.min(limit));
            }
            let next = dues.iter().find(|due| **due > now).copied();
            assert_eq!(heap.next_after(now), next);
            assert_eq!(heap.peek_due(), dues.first().copied());
        }
    }
}

#[test]
fn reserve_allocates_the_capacity() {
    let mut heap = DelayHeap::new();
    heap.push(0, 0);
    heap.reserve(1_000);
    let capacity = heap.capacity();
    assert!(capacity >= 1_001);
    for value in 1..=1_000 {
        heap.push(value, value);
    }
    assert_eq!(heap.capacity(), capacity);
}

#[test]
fn shrink_to_keeps_the_requested_capacity() {
    let mut heap = DelayHeap::with_capacity(1_000);
    heap.push(0, 0);
    heap.shrink_to(100);
    assert!((100..1_000).contains(&heap.capacity()));
    heap.shrink_to_fit();
    assert!((1..100).contains(&heap.capacity()));
    assert_eq!(heap.pop().unwrap().value, 0);
}

#[test]
fn iterators_have_an_exact_length() {
    let mut heap: DelayHeap<_> = (0..10).map(|value| (value, 0)).collect();
    let mut drain = heap.drain_ready(0, 5);
    assert_eq!(drain.size_hint(), (0, Some(5)));
    drain.next();
    assert_eq!(drain.size_hint(), (0, Some(4)));
    assert_eq!(heap.iter().len(), 9);
    let mut entries = heap.into_iter();
    entries.next();
    assert_eq!(entries.len(), 8);
}

#[test]
fn a_capacity_overflow_panics() {
    let most = 1 << 28;
    for absurd in [most, usize::MAX / 64, usize::MAX / 2, usize::MAX] {
        let mut heap = DelayHeap::new();
        heap.push(0, 0);
        let refused = catch_unwind(AssertUnwindSafe(|| heap.reserve(absurd)));
        let said = *refused.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(said, "capacity overflow", "{absurd}");
        assert_eq!(heap.pop().unwrap().value, 0);
    }
    let refused = catch_unwind(|| DelayHeap::<u8>::with_capacity(usize::MAX / 64));
    assert!(refused.is_err());
}

#[test]
fn extend_ignores_an_excessive_size_hint() {
    struct Boaster(u64);
    impl Iterator for Boaster {
        type Item = (u64, u64);
        fn next(&mut self) -> Option<(u64, u64)> {
            self.0 = self.0.checked_sub(1)?;
            Some((self.0, self.0))
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (usize::MAX, None)
        }
    }
    let mut heap = DelayHeap::new();
    heap.extend(Boaster(10));
    assert_eq!(heap.len(), 10);
    assert_eq!(Boaster(10).collect::<DelayHeap<_>>().len(), 10);
}

/// No machine has memory for as many of these values as a heap may have entries.
type Vast = [u64; 1 << 28];

#[test]
fn a_failed_allocation_is_an_error_and_changes_nothing() {
    let mut heap = DelayHeap::<Vast>::new();
    let refused = heap.try_reserve(1 << 28).unwrap_err();
    assert!(matches!(refused, ReserveError::NoMemory(_)));
    assert!(std::error::Error::source(&refused).is_some());
    assert_eq!(refused.to_string(), "no memory for the additional entries");
    assert_eq!((heap.capacity(), heap.len()), (0, 0));

    let mut heap = DelayHeap::new();
    heap.push("a", 1);
    for absurd in [usize::MAX, 1 << 28] {
        let refused = heap.try_reserve(absurd).unwrap_err();
        assert_eq!(refused, ReserveError::TooMany);
        assert_eq!(refused.to_string(), "a heap cannot hold that many entries");
    }
    assert_eq!(heap.pop().map(|entry| entry.value), Some("a"));
}

#[test]
fn reserve_is_in_addition_to_present_and_checked_out_entries() {
    let mut heap = DelayHeap::new();
    for n in 0..100 {
        heap.push(n, n);
    }
    let out = heap.check_out(100);
    heap.try_reserve(1_000).unwrap();
    let capacity = heap.capacity();
    assert!(capacity >= 99 + 1_000);
    for n in 0..1_000 {
        heap.push(n, n);
    }
    assert_eq!(heap.capacity(), capacity);
    assert!(heap.check_in(out.unwrap()).is_ok());
}

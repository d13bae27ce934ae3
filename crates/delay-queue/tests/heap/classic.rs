//! Cases that the tests of other heaps and delay queues cover.

use delay_queue::{DelayHeap, NEVER};

fn values<T>(heap: DelayHeap<T>) -> Vec<T> {
    heap.into_iter().map(|entry| entry.value).collect()
}

#[test]
fn smoke() {
    let mut heap = DelayHeap::new();
    let tea = heap.push("tea", 3);
    heap.push("egg", 4);
    assert_eq!(heap.pop_ready(2), None);
    assert_eq!(heap.pop_ready(3).map(|entry| entry.id), Some(tea));
    assert_eq!(heap.pop().map(|entry| entry.value), Some("egg"));
    assert_eq!(heap.pop(), None);
}

#[test]
fn nine_values_are_popped_in_order() {
    let mut heap = DelayHeap::new();
    for due in [5, 1, 8, 2, 9, 4, 7, 3, 6] {
        heap.push(due, due);
    }
    assert_eq!(values(heap), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn pairs_are_popped_in_order() {
    let heap: DelayHeap<_> = [("c", 3), ("a", 1), ("b", 2)].into_iter().collect();
    assert_eq!(heap.len(), 3);
    assert_eq!(values(heap), ["a", "b", "c"]);
}

#[test]
fn extend_adds_to_the_existing_entries() {
    let mut heap: DelayHeap<_> = [("b", 2)].into_iter().collect();
    heap.extend([("a", 1), ("c", 3)]);
    assert_eq!(values(heap), ["a", "b", "c"]);
}

#[test]
fn entries_due_after_one_two_and_three_microseconds_are_taken_in_order() {
    let mut heap = DelayHeap::new();
    for micros in [2, 3, 1] {
        heap.push(micros, micros * 1_000);
    }
    assert_eq!(heap.pop_ready(999), None);
    let ready = heap.drain_ready(2_000, usize::MAX);
    assert!(ready.map(|entry| entry.value).eq([1, 2]));
    assert_eq!(heap.pop_ready(3_000).map(|entry| entry.value), Some(3));
}

#[test]
fn twenty_entries_pushed_in_reverse_are_popped_in_order_and_not_early() {
    let mut heap = DelayHeap::new();
    for due in (1..=20).rev() {
        heap.push(due, due);
    }
    for now in 1..=20 {
        assert_eq!(heap.pop_ready(now).map(|entry| entry.value), Some(now));
        assert_eq!(heap.pop_ready(now), None);
    }
}

#[test]
fn an_entry_is_removed_once() {
    let mut heap = DelayHeap::new();
    let id = heap.push((), 1);
    assert!(heap.remove(id).is_some());
    assert!(heap.remove(id).is_none());
}

#[test]
fn removing_entries_in_any_order_keeps_their_neighbours() {
    for count in [20, 500, 5_000] {
        let mut heap = DelayHeap::new();
        let ids: Vec<_> = (0..count).map(|due| heap.push(due, due)).collect();
        let (mut even, mut odd) = (Vec::new(), Vec::new());
        for (index, id) in ids.iter().enumerate() {
            if index % 2 == 0 { &mut even } else { &mut odd }.push(*id);
        }
        for id in even {
            let due = heap.due(id).unwrap();
            assert_eq!(heap.remove(id).map(|entry| entry.value), Some(due));
            assert_eq!(heap.peek_due(), Some(1));
        }
        assert!(odd.iter().all(|id| heap.contains(*id)));
        for id in odd.into_iter().rev() {
            assert!(heap.remove(id).is_some());
            assert!(!heap.contains(id));
        }
        assert!(heap.is_empty());
    }
}

#[test]
fn peek_returns_a_head_that_never_falls_due() {
    let mut heap = DelayHeap::new();
    assert_eq!(heap.peek(), None);
    let id = heap.push("someday", NEVER);
    let first = heap.peek().unwrap();
    assert_eq!((first.id, first.due, *first.value), (id, NEVER, "someday"));
}

#[test]
fn a_drain_takes_the_ready_entries_up_to_its_limit() {
    let mut heap: DelayHeap<_> = (0..10_u64).map(|due| (due, due)).collect();
    assert_eq!(heap.drain_ready(4, 0).count(), 0);
    assert_eq!(heap.drain_ready(4, 3).count(), 3);
    assert_eq!(heap.drain_ready(4, 3).count(), 2);
    assert_eq!(heap.drain_ready(3, usize::MAX).count(), 0);
    assert_eq!(heap.len(), 5);
}

#[test]
fn a_cleared_heap_is_empty_and_usable() {
    let mut heap: DelayHeap<_> = (0..1_000_u64).map(|due| (due, due * 7 % 1_000)).collect();
    heap.clear();
    assert!(heap.is_empty());
    assert_eq!(heap.peek(), None);
    assert_eq!(heap.pop_ready(NEVER), None);
    heap.extend([(1, 1), (0, 0)]);
    assert_eq!(values(heap), [0, 1]);
}

#[test]
fn len_empty_full() {
    let mut heap = DelayHeap::with_capacity(4);
    assert!(heap.is_empty());
    let capacity = heap.capacity();
    assert!(capacity >= 4);
    for due in 0..4 {
        assert_eq!(heap.len(), due);
        heap.push((), due as u64);
    }
    assert_eq!(heap.capacity(), capacity);
    for left in (0..4).rev() {
        heap.pop();
        assert_eq!(heap.len(), left);
    }
    assert_eq!(heap.capacity(), capacity);
}

#[test]
fn iteration_visits_every_entry_and_removes_none() {
    let mut heap = DelayHeap::new();
    let ids: Vec<_> = (0..1_000_u64)
        .map(|due| heap.push(due, due * 7 % 1_000))
        .collect();
    heap.remove(ids[500]);
    let mut seen: Vec<_> = heap.iter().map(|entry| *entry.value).collect();
    seen.sort_unstable();
    assert!(
        seen.into_iter()
            .eq((0..1_000).filter(|value| *value != 500))
    );
    assert_eq!(heap.iter().len(), 999);
    assert_eq!((&heap).into_iter().count(), heap.len());
}

#[test]
fn debug_shows_every_entry() {
    let mut heap = DelayHeap::new();
    heap.push("tea", 3);
    heap.push("egg", 4);
    let text = format!("{heap:?}");
    assert!(text.contains("tea") && text.contains("egg"), "{text}");
}

#[test]
fn an_entry_with_a_huge_delay_does_not_block_earlier_ones() {
    let mut heap = DelayHeap::new();
    heap.push("never", NEVER);
    heap.push("in five hundred years", NEVER - 1);
    heap.push("soon", 1);
    assert_eq!(heap.pop_ready(1).map(|entry| entry.value), Some("soon"));
    assert_eq!(heap.pop_ready(1), None);
}

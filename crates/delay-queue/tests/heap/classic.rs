//! What heaps and delay queues elsewhere are tested for.

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
fn nine_pushed_leave_sorted() {
    let mut heap = DelayHeap::new();
    for due in [5, 1, 8, 2, 9, 4, 7, 3, 6] {
        heap.push(due, due);
    }
    assert_eq!(values(heap), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_heap_of_pairs_has_them_in_order() {
    let heap: DelayHeap<_> = [("c", 3), ("a", 1), ("b", 2)].into_iter().collect();
    assert_eq!(heap.len(), 3);
    assert_eq!(values(heap), ["a", "b", "c"]);
}

#[test]
fn extending_adds_to_what_is_there() {
    let mut heap: DelayHeap<_> = [("b", 2)].into_iter().collect();
    heap.extend([("a", 1), ("c", 3)]);
    assert_eq!(values(heap), ["a", "b", "c"]);
}

#[test]
fn three_items_of_one_two_and_three_microseconds_come_in_order() {
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
fn twenty_items_inserted_in_reverse_leave_in_order_and_none_early() {
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
fn removing_is_true_once_and_false_after() {
    let mut heap = DelayHeap::new();
    let id = heap.push((), 1);
    assert!(heap.remove(id).is_some());
    assert!(heap.remove(id).is_none());
}

#[test]
fn every_second_one_then_the_rest_backwards_are_removed_and_neighbours_stay() {
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
fn peeking_shows_the_head_although_it_never_falls_due() {
    let mut heap = DelayHeap::new();
    assert_eq!(heap.peek(), None);
    let id = heap.push("someday", NEVER);
    let first = heap.peek().unwrap();
    assert_eq!((first.id, first.due, *first.value), (id, NEVER, "someday"));
}

#[test]
fn draining_takes_the_lesser_of_the_limit_and_what_is_ready() {
    let mut heap: DelayHeap<_> = (0..10_u64).map(|due| (due, due)).collect();
    assert_eq!(heap.drain_ready(4, 0).count(), 0);
    assert_eq!(heap.drain_ready(4, 3).count(), 3);
    assert_eq!(heap.drain_ready(4, 3).count(), 2);
    assert_eq!(heap.drain_ready(3, usize::MAX).count(), 0);
    assert_eq!(heap.len(), 5);
}

#[test]
fn clearing_empties_and_the_heap_is_usable_again() {
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
fn iterating_visits_all_and_takes_none() {
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
fn the_text_names_every_entry() {
    let mut heap = DelayHeap::new();
    heap.push("tea", 3);
    heap.push("egg", 4);
    let text = format!("{heap:?}");
    assert!(text.contains("tea") && text.contains("egg"), "{text}");
}

#[test]
fn a_huge_delay_does_not_block_short_ones() {
    let mut heap = DelayHeap::new();
    heap.push("never", NEVER);
    heap.push("in five hundred years", NEVER - 1);
    heap.push("soon", 1);
    assert_eq!(heap.pop_ready(1).map(|entry| entry.value), Some("soon"));
    assert_eq!(heap.pop_ready(1), None);
}

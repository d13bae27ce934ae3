//! Entries that are checked out and may be returned.

use std::rc::Rc;

use delay_queue::DelayHeap;

#[test]
fn a_checked_out_entry_is_not_in_the_heap() {
    let mut heap = DelayHeap::new();
    let id = heap.push("a", 1);
    assert!(heap.check_out(0).is_none());
    let out = heap.check_out(1).unwrap();
    assert_eq!((out.id(), out.due(), *out.value()), (id, 1, "a"));
    assert!(heap.is_empty());
    assert!(!heap.contains(id));
    assert_eq!(heap.remove(id), None);
    assert_eq!(heap.reset(id, 0), None);
    assert_eq!(heap.get(id), None);
    assert_eq!(heap.due(id), None);
    assert_eq!(heap.iter().count(), 0);
    assert_eq!(heap.count_ready(1, 1), 0);
    heap.check_in(out).unwrap();
    assert_eq!(heap.get(id), Some(&"a"));
}

#[test]
fn checked_in_entries_keep_their_ids_and_their_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut heap = DelayHeap::new();
        let ids: Vec<_> = (0..5).map(|value| heap.push(value, 7)).collect();
        let mut out: Vec<_> = (0..3).map(|_| heap.check_out(7)).collect();
        heap.push(5, 7);
        for index in order {
            let out = out[index].take().unwrap();
            assert_eq!(heap.check_in(out).unwrap(), ids[index]);
        }
        let values = heap.into_iter().map(|entry| entry.value);
        assert!(values.eq(0..6), "{order:?}");
    }
}

#[test]
fn a_checked_out_value_can_be_offered_and_returned() {
    let mut heap = DelayHeap::new();
    let id = heap.push(String::from("a"), 1);
    let (mut value, place) = heap.check_out(1).unwrap().split();
    value.push('b');
    heap.check_in(place.with(value)).unwrap();
    assert_eq!(heap.get(id).unwrap(), "ab");
}

#[test]
fn a_checked_out_value_can_be_changed() {
    let mut heap = DelayHeap::new();
    heap.push(1, 1);
    let mut out = heap.check_out(1).unwrap();
    *out.value_mut() += 1;
    heap.check_in(out).unwrap();
    assert_eq!(heap.pop().unwrap().value, 2);
}

#[test]
fn a_settled_entry_is_gone_and_its_slot_is_reused() {
    let mut heap = DelayHeap::new();
    let id = heap.push("a", 1);
    let capacity = heap.capacity();
    let (_, place) = heap.check_out(1).unwrap().split();
    assert_eq!(heap.capacity(), capacity - 1, "its place is taken");
    let entry = heap.settle(place).unwrap();
    assert_eq!((entry.id, entry.due), (id, 1));
    assert_eq!(heap.capacity(), capacity);
    heap.push("b", 1);
    assert!(!heap.contains(id));
}

#[test]
fn another_heap_neither_checks_in_nor_settles_the_entry() {
    let (mut heap, mut other) = (DelayHeap::new(), DelayHeap::new());
    heap.push("a", 1);
    other.push("b", 1);
    let out = heap.check_out(1).unwrap();
    let out = other.check_in(out).unwrap_err();
    let out = other.settle(out).unwrap_err();
    assert_eq!(other.len(), 1);
    heap.check_in(out).unwrap();
    assert_eq!(heap.len(), 1);
}

#[test]
fn a_checked_out_entry_returns_to_a_cleared_and_shrunk_heap() {
    let mut heap = DelayHeap::new();
    for value in 0..1_000 {
        heap.push(value, value);
    }
    let out = heap.check_out(0).unwrap();
    heap.clear();
    heap.shrink_to_fit();
    heap.extend((1..10).map(|value| (value, 0)));
    let id = heap.check_in(out).unwrap();
    assert_eq!(heap.pop().unwrap().id, id);
    assert_eq!(heap.len(), 9);
}

#[test]
fn a_dropped_checkout_drops_its_value_and_keeps_its_slot() {
    let mut heap = DelayHeap::new();
    let value = Rc::new(());
    let id = heap.push(Rc::clone(&value), 1);
    let capacity = heap.capacity();
    drop(heap.check_out(1));
    assert_eq!(Rc::strong_count(&value), 1);
    assert!(!heap.contains(id));
    heap.shrink_to_fit();
    assert!(heap.capacity() < capacity);
    heap.push(value, 1);
    assert!(!heap.contains(id));
    assert_eq!(heap.len(), 1);
}

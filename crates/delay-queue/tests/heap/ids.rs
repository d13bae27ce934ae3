//! The entry that an id finds, and for how long.

use delay_queue::{DelayHeap, EntryId};

/// Asserts that no method finds an entry by this id.
fn assert_stale(heap: &mut DelayHeap<u64>, id: EntryId) {
    let len = heap.len();
    assert!(!heap.contains(id));
    assert_eq!(heap.get(id), None);
    assert_eq!(heap.get_mut(id), None);
    assert_eq!(heap.due(id), None);
    assert_eq!(heap.reset(id, 0), None);
    assert_eq!(heap.remove(id), None);
    assert_eq!(heap.len(), len);
}

#[test]
fn an_id_is_as_large_as_two_words() {
    assert_eq!(size_of::<EntryId>(), 16);
}

#[test]
fn the_id_of_a_removed_entry_finds_nothing() {
    let mut heap = DelayHeap::new();
    let popped = heap.push(0, 0);
    heap.pop();
    assert_stale(&mut heap, popped);
    let removed = heap.push(1, 0);
    heap.remove(removed);
    assert_stale(&mut heap, removed);
    let cleared = heap.push(2, 0);
    heap.clear();
    assert_stale(&mut heap, cleared);
    let drained = heap.push(3, 0);
    heap.drain_ready(0, 1).for_each(drop);
    assert_stale(&mut heap, drained);
    // Each new entry reuses the slot of this one.
    heap.push(4, 0);
    for id in [popped, removed, cleared, drained] {
        assert_stale(&mut heap, id);
    }
    assert_eq!(heap.peek().map(|entry| *entry.value), Some(4));
}

#[test]
fn an_id_of_another_heap_finds_nothing() {
    let (mut one, mut other) = (DelayHeap::new(), DelayHeap::new());
    let id = one.push(1, 1);
    other.push(2, 1);
    assert_stale(&mut other, id);
    assert!(one.contains(id));
}

#[test]
fn an_id_of_a_dropped_heap_finds_nothing_in_a_new_one() {
    let mut heap = DelayHeap::new();
    let id = heap.push(1, 1);
    let mut heap = DelayHeap::new();
    heap.push(2, 1);
    assert_stale(&mut heap, id);
}

#[test]
fn heaps_made_by_many_threads_have_different_ids() {
    let makers = (0..4).map(|_| {
        std::thread::spawn(|| {
            let ids = (0..100).map(|_| DelayHeap::new().push(0, 0));
            ids.collect::<Vec<_>>()
        })
    });
    let makers: Vec<_> = makers.collect();
    let ids = makers.into_iter().flat_map(|maker| maker.join().unwrap());
    let ids: std::collections::HashSet<_> = ids.collect();
    assert_eq!(ids.len(), 400);
}

#[test]
fn a_slot_whose_generations_are_used_up_is_retired() {
    let mut heap = DelayHeap::beginning_with(0, u32::MAX - 1);
    let before = heap.push(0, 0);
    heap.pop();
    let last = heap.push(1, 0);
    heap.pop();
    let capacity = heap.capacity();
    let other = heap.push(2, 0);
    assert_stale(&mut heap, before);
    assert_stale(&mut heap, last);
    assert!(heap.contains(other));
    heap.pop();
    assert_eq!(
        heap.capacity(),
        capacity,
        "the second slot has generations left"
    );
    heap.shrink_to_fit();
    let ids: Vec<_> = (0..10).map(|value| heap.push(value, 0)).collect();
    for id in [before, last, other] {
        assert_stale(&mut heap, id);
    }
    assert!(ids.iter().all(|id| heap.contains(*id)));
}

#[test]
fn a_million_entries_have_unique_ids_after_generations_run_out() {
    let mut heap = DelayHeap::beginning_with(0, u32::MAX - 3);
    let mut seen = std::collections::HashSet::new();
    for value in 0..1_000 {
        assert!(seen.insert(heap.push(value, 0)));
        heap.pop();
    }
}

#[test]
fn an_old_id_finds_no_new_entry_after_shrinking() {
    let mut heap = DelayHeap::new();
    let kept = heap.push(0, 0);
    let old: Vec<_> = (1..1_000).map(|value| heap.push(value, value)).collect();
    for id in &old {
        heap.remove(*id);
    }
    heap.shrink_to_fit();
    assert!(heap.capacity() < 100, "{}", heap.capacity());
    let new: Vec<_> = (1..1_000).map(|value| heap.push(value, value)).collect();
    for id in old {
        assert_stale(&mut heap, id);
    }
    assert!(heap.contains(kept));
    assert!(new.iter().all(|id| heap.contains(*id)));
}

#[test]
fn an_old_id_finds_no_new_entry_after_an_empty_heap_was_shrunk() {
    let mut heap = DelayHeap::new();
    let mut old = Vec::new();
    for round in 0..10 {
        let ids: Vec<_> = (0..100).map(|value| heap.push(value, round)).collect();
        heap.clear();
        heap.shrink_to_fit();
        assert_eq!(heap.capacity(), 0);
        old.extend(ids);
    }
    heap.extend((0..100).map(|value| (value, 0)));
    for id in old {
        assert_stale(&mut heap, id);
    }
}

#[test]
fn no_id_is_reused_when_an_empty_heap_starts_new_generations() {
    let mut heap = DelayHeap::beginning_with(0, u32::MAX - 1);
    let mut old = std::collections::HashSet::new();
    for value in 0..100 {
        // Often enough to retire the first slot.
        for _ in 0..3 {
            assert!(old.insert(heap.push(value, 0)));
            heap.pop();
        }
        heap.shrink_to_fit();
        assert_eq!(heap.capacity(), 0);
    }
    heap.push(0, 0);
    assert!(heap.capacity() >= 1);
    for id in old {
        assert_stale(&mut heap, id);
    }
}

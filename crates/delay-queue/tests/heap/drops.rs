//! Each value is dropped once, when its owner says so.

use std::panic::{AssertUnwindSafe, catch_unwind};

use delay_queue::DelayHeap;
use testkit::{Counted, DropCounter, PanicOnDrop};

const MANY: usize = 1_000;

fn filled(counter: &DropCounter) -> DelayHeap<Counted> {
    let dues = (0..MANY as u64).map(|index| index * 7 % 1_000);
    dues.map(|due| (counter.token(), due)).collect()
}

#[test]
fn drops() {
    let counter = DropCounter::new();
    let mut heap = filled(&counter);
    drop(heap.pop());
    assert_eq!(counter.dropped(), 1);
    drop(heap);
    assert_eq!((counter.dropped(), counter.alive()), (MANY, 0));
}

#[test]
fn cancel_returns_the_value_at_once() {
    let counter = DropCounter::new();
    let mut heap = DelayHeap::new();
    let ids: Vec<_> = (0..1_000)
        .map(|due| heap.push(counter.token(), due))
        .collect();
    for (index, id) in ids.into_iter().rev().enumerate() {
        let removed = heap.remove(id);
        assert_eq!(counter.dropped(), index);
        drop(removed);
        assert_eq!(counter.dropped(), index + 1);
    }
}

#[test]
fn a_drain_dropped_halfway_leaves_the_remaining_entries() {
    let counter = DropCounter::new();
    let mut heap = filled(&counter);
    let mut drain = heap.drain_ready(u64::MAX, 10);
    drop((drain.next(), drain.next()));
    drop(drain);
    assert_eq!((heap.len(), counter.dropped()), (MANY - 2, 2));
}

#[test]
fn clear_drops_all_values_except_checked_out_ones() {
    let counter = DropCounter::new();
    let mut heap = filled(&counter);
    let out = heap.check_out(0).unwrap();
    heap.clear();
    assert_eq!(counter.alive(), 1);
    heap.check_in(out).unwrap();
    drop(heap);
    assert_eq!(counter.alive(), 0);
}

#[test]
fn a_refused_push_returns_the_value() {
    let counter = DropCounter::new();
    let (mut heap, mut other) = (filled(&counter), DelayHeap::new());
    let out = heap.check_out(0).unwrap();
    let refused = other.check_in(out).unwrap_err();
    assert_eq!(counter.dropped(), 0);
    drop(refused);
    assert_eq!(counter.dropped(), 1);
}

/// A value whose drop panics, among values that are counted.
type Mixed = (Option<PanicOnDrop>, Counted);

fn with_one_that_panics(counter: &DropCounter, at: u64) -> DelayHeap<Mixed> {
    let pair = |due| ((due == at).then(PanicOnDrop::new), counter.token());
    (0..MANY as u64)
        .map(|due| (pair(due), due * 7 % 1_000))
        .collect()
}

#[test]
fn a_drop_that_panics_during_clear_keeps_no_other_value() {
    for at in [0, 500, 999] {
        let counter = DropCounter::new();
        let mut heap = with_one_that_panics(&counter, at);
        let cleared = catch_unwind(AssertUnwindSafe(|| heap.clear()));
        assert!(cleared.is_err());
        assert_eq!((heap.len(), counter.alive()), (0, 0));
        heap.push((None, counter.token()), 1);
        assert!(heap.pop().is_some());
    }
}

#[test]
fn a_drop_that_panics_with_the_heap_leaks_no_other_value() {
    let counter = DropCounter::new();
    let heap = with_one_that_panics(&counter, 500);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(heap))).is_err());
    assert_eq!((counter.dropped(), counter.alive()), (MANY, 0));
}

#[test]
fn a_drop_that_panics_during_iteration_leaks_no_other_value() {
    let counter = DropCounter::new();
    let mut heap = with_one_that_panics(&counter, 0);
    let drained = catch_unwind(AssertUnwindSafe(|| {
        heap.drain_ready(u64::MAX, usize::MAX).for_each(drop);
    }));
    assert!(drained.is_err());
    assert_eq!(heap.len(), counter.alive());
    assert_eq!(heap.into_sorted_vec().len(), MANY - 1);
    assert_eq!(counter.alive(), 0);
}

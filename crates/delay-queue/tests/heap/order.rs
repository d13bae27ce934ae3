//! The order in which entries leave.

use delay_queue::{DelayHeap, NEVER};

fn popped(heap: &mut DelayHeap<u64>, count: usize) -> Vec<u64> {
    let popped = (0..count).filter_map(|_| heap.pop());
    popped.map(|entry| entry.value).collect()
}

#[test]
fn entries_due_together_leave_in_the_order_of_their_pushes() {
    for due in [0, 7, u64::MAX - 1, NEVER] {
        for count in [2, 10, 100, 1_000] {
            let mut heap = DelayHeap::new();
            for value in 0..count {
                heap.push(value, due);
            }
            let entries = heap.into_sorted_vec();
            assert!(
                entries.iter().map(|entry| entry.value).eq(0..count),
                "{due} {count}"
            );
        }
    }
}

#[test]
fn entries_due_together_among_others_leave_in_the_order_of_their_pushes() {
    let mut heap = DelayHeap::new();
    for value in 0..20_000 {
        heap.push(value, value * 7_919 % 100);
    }
    let entries = heap.into_sorted_vec();
    assert!(entries.is_sorted_by_key(|entry| (entry.due, entry.value)));
}

#[test]
fn an_entry_reset_to_its_own_time_goes_behind_entries_due_then() {
    for others in [2, 1_000] {
        let mut heap = DelayHeap::new();
        let first = heap.push(0, 5);
        for value in 1..others {
            heap.push(value, 5);
        }
        assert_eq!(heap.reset(first, 5), Some(5));
        assert_eq!(heap.pop().unwrap().value, 1);
        assert_eq!(heap.into_sorted_vec().last().unwrap().value, 0);
    }
}

#[test]
fn a_reset_entry_keeps_its_id_and_takes_its_new_place() {
    let mut heap = DelayHeap::new();
    let ids: Vec<_> = (0..1_000_u64)
        .map(|value| heap.push(value, value * 7 % 1_000))
        .collect();
    assert_eq!(heap.reset(ids[0], 2_000), Some(0));
    assert_eq!(heap.reset(ids[999], 0), Some(993));
    assert_eq!(heap.peek().unwrap().id, ids[999]);
    assert_eq!(heap.due(ids[0]), Some(2_000));
    assert_eq!(heap.into_sorted_vec().last().unwrap().id, ids[0]);
}

#[test]
fn an_entry_due_never_is_last_and_not_ready_and_can_be_reset() {
    let mut heap = DelayHeap::new();
    let never = heap.push(0, NEVER);
    heap.push(1, NEVER - 1);
    assert_eq!(heap.count_ready(NEVER, usize::MAX), 1);
    assert_eq!(heap.pop_ready(NEVER).unwrap().value, 1);
    assert_eq!(heap.pop_ready(NEVER), None);
    assert!(heap.check_out(NEVER).is_none());
    assert_eq!(heap.drain_ready(NEVER, 1).next(), None);
    assert_eq!(heap.next_after(NEVER), Some(NEVER));
    assert_eq!(heap.peek_due(), Some(NEVER));
    assert_eq!(heap.reset(never, 3), Some(NEVER));
    assert_eq!(heap.pop_ready(3).unwrap().id, never);
}

#[test]
fn order_holds_across_two_to_the_32_pushes() {
    for before in 0..10 {
        let mut heap = DelayHeap::beginning_with(u64::from(u32::MAX - before), 0);
        for value in 0..1_000 {
            heap.push(value, value % 3);
        }
        let entries = heap.into_sorted_vec();
        assert_eq!(entries.len(), 1_000);
        assert!(
            entries.is_sorted_by_key(|entry| (entry.due, entry.value)),
            "{before}"
        );
    }
}

#[test]
fn an_entry_checked_out_before_push_2_to_the_32_returns_to_its_place() {
    let mut heap = DelayHeap::beginning_with(u64::from(u32::MAX - 3), 0);
    heap.push(0, 5);
    heap.push(1, 5);
    let first = heap.check_out(5).unwrap();
    for value in 2..10 {
        heap.push(value, 5);
    }
    heap.check_in(first).unwrap();
    assert_eq!(popped(&mut heap, 10), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_reset_counts_as_a_push_across_two_to_the_32_pushes() {
    let mut heap = DelayHeap::beginning_with(u64::from(u32::MAX - 2), 0);
    let ids: Vec<_> = (0..2).map(|value| heap.push(value, 5)).collect();
    heap.reset(ids[0], 5);
    heap.reset(ids[1], 5);
    heap.reset(ids[0], 5);
    assert_eq!(popped(&mut heap, 2), [1, 0]);
}

#[test]
fn timeouts_of_one_length_with_a_few_longer_ones_leave_in_order() {
    let mut heap = DelayHeap::new();
    for now in 0..10_000 {
        heap.push(now, now + if now % 100 == 7 { 3_000 } else { 30 });
    }
    let entries = heap.into_sorted_vec();
    assert!(entries.is_sorted_by_key(|entry| (entry.due, entry.value)));
    assert_eq!(entries.len(), 10_000);
}

#[test]
fn entries_pushed_between_pops_leave_in_order() {
    // Each push is due before, at, or after the entry being taken, at every distance.
    for distance in [1, 3, 100, 10_000, 1 << 40] {
        let mut heap = DelayHeap::new();
        for value in 0..2_000 {
            heap.push(value, 1_000_000 + value * 7_919 % 2_000 * distance);
        }
        let mut last = 0;
        for round in 0..4_000_u64 {
            let entry = heap.pop().unwrap();
            assert!(entry.due >= last, "{} after {last}", entry.due);
            last = entry.due;
            if round < 2_000 {
                let due = last + (round * 31 % 5) * distance;
                heap.push(10_000 + round, due);
            }
        }
        assert!(heap.is_empty());
    }
}

#[test]
fn falling_times_leave_in_order() {
    // Each push is due before all others.
    let mut heap = DelayHeap::new();
    for value in (0..20_000).rev() {
        heap.push(value, value * 1_000);
    }
    assert!(heap.into_iter().map(|entry| entry.value).eq(0..20_000));
}

#[test]
fn clusters_far_apart_leave_in_order() {
    let mut heap = DelayHeap::new();
    for value in 0..20_000_u64 {
        let cluster = value * 7_919 % 6;
        heap.push(value, (1 << (cluster * 11)) + value * 31 % 977);
    }
    let entries = heap.into_sorted_vec();
    assert!(entries.is_sorted_by_key(|entry| (entry.due, entry.value)));
}

/// The last of the far keys that are cut by order have been pulled. Then more are pushed.
#[test]
fn entries_due_never_leave_in_order_across_two_to_the_32_pushes() {
    let mut heap = DelayHeap::beginning_with(u64::from(u32::MAX - 40), 0).with_short_lists();
    for n in 0..20 {
        heap.push(n, NEVER);
    }
    assert_eq!(heap.pop().map(|entry| entry.value), Some(0));
    for n in 20..60 {
        heap.push(n, NEVER);
    }
    let left = heap.into_iter().map(|entry| entry.value);
    assert!(left.eq(1..60));
}

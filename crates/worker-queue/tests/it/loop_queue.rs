//! Behaviour of the ring alone. An empty ring is turned before it is filled: all turns together put the wrap at
//! every place.

use std::collections::BTreeSet;
use std::ops::Range;

use worker_queue::{Full, LoopQueue};

const SLOTS: usize = 10;

/// An empty ring whose next entry goes into the slot `turn` places after the first.
fn turned(turn: usize) -> LoopQueue<u32, u64> {
    let mut ring = LoopQueue::new(SLOTS).unwrap();
    // One entry stays inside, so that the ring cannot start again from its first slot.
    ring.push(0, 0).unwrap();
    for _ in 1..turn {
        ring.push(0, 0).unwrap();
        ring.pop();
    }
    ring.pop();
    ring
}

/// Every layout of the entries of `range`, each stamped with its number.
fn layouts(range: Range<u32>) -> impl Iterator<Item = LoopQueue<u32, u64>> {
    (1..=SLOTS).map(move |turn| {
        let mut ring = turned(turn);
        for entry in range.clone() {
            ring.push(entry, u64::from(entry)).unwrap();
        }
        ring
    })
}

fn fill_up(ring: &mut LoopQueue<u32, u64>, last_used: u64) {
    for _ in ring.len()..SLOTS {
        ring.push(0, last_used).unwrap();
    }
}

fn entries(ring: &LoopQueue<u32, u64>) -> Vec<u32> {
    ring.iter().map(|(&entry, _)| entry).collect()
}

/// The addresses of the entries.
fn addresses(ring: &LoopQueue<u32, u64>) -> impl Iterator<Item = usize> {
    ring.iter()
        .map(|(entry, _)| std::ptr::from_ref(entry).addr())
}

#[test]
fn smoke() {
    let mut ring = LoopQueue::new(2).unwrap();
    ring.push('a', 1).unwrap();
    ring.push('b', 2).unwrap();
    assert_eq!(ring.pop(), Some('a'));
    ring.push('c', 3).unwrap();
    assert_eq!(ring.pop(), Some('b'));
    assert_eq!(ring.pop(), Some('c'));
    assert_eq!(ring.pop(), None);
}

#[test]
fn capacity() {
    for slots in 0..20 {
        let mut ring = LoopQueue::new(slots).unwrap();
        assert_eq!(ring.capacity(), Some(slots));
        for _ in 0..slots {
            ring.push((), 0).unwrap();
        }
        assert_eq!(ring.push((), 0), Err(Full(())));
        assert_eq!((ring.len(), ring.capacity()), (slots, Some(slots)));
    }
}

#[test]
fn len_empty_full() {
    let mut ring = LoopQueue::new(2).unwrap();
    assert_eq!(
        (ring.len(), ring.is_empty(), ring.is_full()),
        (0, true, false)
    );
    ring.push((), 0).unwrap();
    assert_eq!(
        (ring.len(), ring.is_empty(), ring.is_full()),
        (1, false, false)
    );
    ring.push((), 0).unwrap();
    assert_eq!(
        (ring.len(), ring.is_empty(), ring.is_full()),
        (2, false, true)
    );
    ring.pop();
    assert_eq!(
        (ring.len(), ring.is_empty(), ring.is_full()),
        (1, false, false)
    );
}

#[test]
fn a_ring_without_slots_refuses_every_push() {
    let mut ring = LoopQueue::new(0).unwrap();
    assert_eq!(ring.push("worker", 0), Err(Full("worker")));
    assert_eq!(ring.pop(), None);
    assert!(ring.is_empty() && ring.is_full());
}

#[test]
fn a_ring_of_one_slot_holds_one_entry_at_a_time() {
    let mut ring = LoopQueue::new(1).unwrap();
    for entry in 0..3 {
        assert_eq!(ring.push(entry, 0), Ok(0));
        assert_eq!(ring.push(99, 0), Err(Full(99)));
        assert_eq!(ring.pop(), Some(entry));
    }
}

#[test]
fn the_eleventh_entry_is_refused_and_the_four_oldest_of_the_ten_expire() {
    let mut ring = LoopQueue::new(SLOTS).unwrap();
    for entry in 0..5 {
        ring.push(entry, 0).unwrap();
    }
    assert_eq!(ring.pop(), Some(0));
    for entry in 5..11 {
        ring.push(entry, 1).unwrap();
    }
    assert_eq!(ring.push(11, 1), Err(Full(11)));
    assert!(ring.drain_expired(0, usize::MAX).eq(1..5));
    assert!(entries(&ring).into_iter().eq(5..11));
}

#[test]
fn the_layouts_cover_every_wrap_point() {
    let first_slots = layouts(0..10).map(|ring| {
        let mut in_memory: Vec<_> = ring.iter().map(|(entry, _)| entry).collect();
        in_memory.sort_unstable_by_key(|entry| std::ptr::from_ref(*entry).addr());
        *in_memory[0]
    });
    assert_eq!(first_slots.collect::<BTreeSet<_>>(), (0..10).collect());
}

#[test]
fn expiry_finds_every_limit_in_a_full_ring_wherever_it_wraps() {
    for expired in 0..=10 {
        for mut ring in layouts(1..11) {
            let limit = u64::from(expired);
            assert!(ring.drain_expired(limit, usize::MAX).eq(1..=expired));
            assert!(entries(&ring).into_iter().eq(expired + 1..11));
        }
    }
}

#[test]
fn draining_across_the_wrap_point_yields_the_oldest_first() {
    for len in 0..=10 {
        for mut ring in layouts(0..len) {
            assert!(ring.drain_oldest(usize::MAX).eq(0..len));
        }
    }
}

#[test]
fn removing_a_middle_entry_across_the_wrap_keeps_the_order_of_the_others() {
    for removed in 0..10 {
        for mut ring in layouts(0..10) {
            assert_eq!(ring.remove(|&entry| entry == removed), Some(removed));
            let left: Vec<_> = (0..10).filter(|&entry| entry != removed).collect();
            assert_eq!(entries(&ring), left);
        }
    }
}

#[test]
fn growing_keeps_the_entries_at_every_wrap_point() {
    for mut ring in layouts(0..10) {
        assert_eq!(ring.resize(12), Ok(vec![]));
        assert_eq!(ring.capacity(), Some(12));
        ring.push(10, 10).unwrap();
        ring.push(11, 11).unwrap();
        assert_eq!(ring.push(12, 12), Err(Full(12)));
        assert!(entries(&ring).into_iter().eq(0..12));
    }
}

#[test]
fn shrinking_returns_the_oldest_surplus_wherever_the_ring_wraps() {
    for mut ring in layouts(0..10) {
        assert_eq!(ring.resize(4), Ok(vec![0, 1, 2, 3, 4, 5]));
        assert_eq!(entries(&ring), [6, 7, 8, 9]);
        assert_eq!(ring.push(10, 10), Err(Full(10)));
        assert_eq!(ring.pop(), Some(6));
        assert_eq!(ring.push(10, 10), Ok(10));
    }
}

#[test]
fn shrinking_to_no_slots_returns_all_entries() {
    for mut ring in layouts(0..3) {
        assert_eq!(ring.resize(0), Ok(vec![0, 1, 2]));
        assert!(ring.is_empty() && ring.is_full());
    }
}

#[test]
fn shrinking_an_almost_empty_ring_returns_no_entries() {
    for mut ring in layouts(0..3) {
        assert_eq!(ring.resize(3), Ok(vec![]));
        assert_eq!(entries(&ring), [0, 1, 2]);
    }
}

#[test]
fn resizing_keeps_the_stamps() {
    for mut ring in layouts(0..10) {
        ring.resize(5).unwrap();
        assert!(ring.iter().map(|(_, stamp)| stamp).eq(5..10));
    }
}

#[test]
fn a_resize_beyond_memory_fails_and_leaves_the_ring_unchanged() {
    assert!(LoopQueue::<u32, u64>::new(usize::MAX).is_err());
    for mut ring in layouts(0..5) {
        assert!(ring.resize(usize::MAX).is_err());
        assert_eq!(ring.capacity(), Some(SLOTS));
        assert_eq!(entries(&ring), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_cleared_ring_keeps_its_slots_at_every_wrap_point() {
    for mut ring in layouts(0..10) {
        let before: BTreeSet<_> = addresses(&ring).collect();
        ring.clear();
        fill_up(&mut ring, 0);
        assert_eq!(addresses(&ring).collect::<BTreeSet<_>>(), before);
    }
}

#[test]
fn the_slots_of_a_ring_never_move() {
    let mut ring = turned(1);
    fill_up(&mut ring, 0);
    let slots: BTreeSet<_> = addresses(&ring).collect();
    assert_eq!(slots.len(), SLOTS);
    for now in 1..1000 {
        match now % 7 {
            0 => drop(ring.drain_expired(now - 1, 3)),
            1 => drop(ring.drain_oldest(9)),
            2 => drop(ring.remove(|_| true)),
            3 if now % 5 == 0 => ring.clear(),
            _ => fill_up(&mut ring, now),
        }
        assert!(addresses(&ring).all(|address| slots.contains(&address)));
    }
}

#[test]
fn oldest_first_reuse_keeps_every_worker_young() {
    let mut ring = LoopQueue::new(4).unwrap();
    for worker in 0..4 {
        ring.push(worker, 0).unwrap();
    }
    for now in 1..100 {
        let next = ring.pop().unwrap();
        ring.push(next, now).unwrap();
    }
    assert_eq!(ring.drain_expired(95, usize::MAX).count(), 0);
}

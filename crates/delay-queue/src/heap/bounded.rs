//! Tests that no operation moves or visits more than a bounded number of keys, however many there
//! are. They count keys and measure no time.

use alloc::vec::Vec;

use super::far::Sizes;
use super::{DelayHeap, EntryId, NEVER, steps};

/// A list whose time comes is spread once, and once more if all its keys fall into one bucket.
/// Times of every magnitude need more: each spreading separates those of eight magnitudes.
const MOST: u64 = 4 * Sizes::USUAL.limit as u64;
const MANY: u64 = 150_000;

/// A heap that checks the cost of every operation.
struct Checked(DelayHeap<u64>);

impl Checked {
    fn new() -> Self {
        steps::take();
        Self(DelayHeap::new())
    }

    fn filled(due: impl Fn(u64) -> u64) -> (Self, Vec<EntryId>) {
        let mut heap = Self::new();
        let ids = (0..MANY).map(|index| heap.push(due(index))).collect();
        (heap, ids)
    }

    fn check(&self) {
        let (steps, len) = (steps::take(), self.0.len());
        assert!(steps <= MOST, "{steps} steps, at {len} entries");
    }

    fn push(&mut self, due: u64) -> EntryId {
        let id = self.0.push(due, due);
        self.check();
        id
    }

    fn pop(&mut self) -> Option<u64> {
        let entry = self.0.pop()?;
        self.check();
        Some(entry.due)
    }

    fn pop_all(mut self) {
        let mut last = 0;
        while let Some(due) = self.pop() {
            assert!(due >= last);
            last = due;
        }
    }
}

/// Returns numbers of a sequence that is spread over the whole range, in no order.
fn scattered(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

#[test]
fn pushes_and_pops_take_few_steps_at_a_time_whatever_the_times() {
    let times: [fn(u64) -> u64; 10] = [
        scattered,
        |index| index,
        |index| MANY - index,
        |index| if index == 0 { 3 } else { 7 },
        // The lane is taken by an entry that is due later than all others.
        |index| if index < 4 { 100 + index } else { 50 },
        |_| NEVER,
        |index| [5, 9, 1 << 50, NEVER, 7][(scattered(index) % 5) as usize],
        |index| 1 << (scattered(index) % 60),
        |index| index + scattered(index) % 1_000,
        // Milliseconds, in bursts.
        |index| (index / 20_000 + scattered(index) % 20) * 1_000_000,
    ];
    for due in times {
        let (heap, _) = Checked::filled(due);
        heap.pop_all();
    }
}

#[test]
fn a_steady_state_takes_few_steps_at_a_time() {
    for span in [MANY, 1 << 36] {
        let (mut heap, _) = Checked::filled(|index| scattered(index) % span);
        for index in 0..2 * MANY {
            let now = heap.pop().expect("the heap is full");
            heap.push(now + scattered(index) % span);
        }
    }
}

#[test]
fn bursts_that_are_half_taken_take_few_steps_at_a_time() {
    let mut heap = Checked::new();
    for burst in 0..10 {
        for index in 0..MANY / 10 {
            heap.push((burst + scattered(index) % 20) * 1_000_000);
        }
        for _ in 0..MANY / 20 {
            heap.pop();
        }
    }
    heap.pop_all();
}

#[test]
fn a_list_that_is_cut_again_and_again_takes_few_steps_at_a_time() {
    // Each level has half of the remaining keys, in a small part of the previous level's time.
    let (heap, _) = Checked::filled(|index| {
        let level = index.trailing_zeros().min(60);
        (1 << (60 - level)) + scattered(index) % (1 << (60 - level))
    });
    heap.pop_all();
}

/// An entry should be moved when its time approaches, and not before.
#[test]
fn a_fill_of_any_size_moves_few_keys() {
    for span in [1_u64 << 36, (1 << 35) + 1, 3 << 50] {
        let mut heap = DelayHeap::new();
        steps::take();
        let mut moved = 0;
        for count in 1..=700_000 {
            heap.push((), scattered(count) % span);
            moved += steps::take();
            assert!(
                count < 100_000 || moved <= count / 2,
                "{moved} steps for {count} pushes in {span}"
            );
        }
    }
}

/// Regression test: order numbers with 32 bits wrapped around by renumbering all keys at once.
#[test]
fn operations_take_few_steps_at_the_2_to_the_32nd_push() {
    for due in [scattered as fn(u64) -> u64, |index| index, |_| NEVER] {
        let mut heap = Checked::new();
        heap.0 = DelayHeap::beginning_with(u64::from(u32::MAX) - MANY, 0);
        let ids: Vec<_> = (0..MANY).map(|index| heap.push(due(index))).collect();
        for (index, id) in (0..100).zip(ids) {
            heap.push(due(index));
            heap.0.reset(id, due(index));
            heap.check();
        }
        heap.pop_all();
    }
}

/// Several times as many as one operation may move.
const MORE: u64 = 150_000;
const ROUNDS: u64 = 4;

/// Resets or replaces each entry many times, in random order.
fn churn(due: fn(u64) -> u64, mut change: impl FnMut(&mut DelayHeap<u64>, &mut EntryId, u64)) {
    let mut heap = DelayHeap::new();
    let mut ids: Vec<_> = (0..MORE)
        .map(|index| heap.push(index, due(index)))
        .collect();
    steps::take();
    let mut total = 0;
    for index in 0..ROUNDS * MORE {
        let id = &mut ids[(scattered(index + 77) % MORE) as usize];
        change(&mut heap, id, due(MORE + index));
        let steps = steps::take();
        total += steps;
        assert!(steps <= MOST, "{steps} steps at the {index}th change");
    }
    // A key is moved less than twice for each stale key, and memory does not stay large.
    assert!(total <= 2 * ROUNDS * MORE, "{total} steps in all");
    let capacity = heap.line.capacity() as u64;
    assert!(4 * capacity <= 7 * MORE, "memory for {capacity} keys");
}

#[test]
fn resets_and_replacements_at_150_000_entries_take_few_steps_at_a_time() {
    for due in [scattered as fn(u64) -> u64, |index| index, |_| NEVER, |_| 7] {
        churn(due, |heap, id, due| {
            heap.reset(*id, due);
        });
        churn(due, |heap, id, due| {
            let entry = heap.remove(*id).expect("the entry is live");
            *id = heap.push(entry.value, due);
        });
    }
}

#[test]
fn cancelling_all_but_one_of_150_000_entries_takes_few_steps_at_a_time() {
    for due in [scattered as fn(u64) -> u64, |index| index] {
        let (mut heap, mut ids) = (DelayHeap::new(), Vec::new());
        ids.extend((0..MORE).map(|index| heap.push(index, due(index))));
        ids.sort_by_key(|id| scattered(id.key().1));
        steps::take();
        while ids.len() > 1 {
            heap.remove(ids.pop().expect("more than one entry is left"));
            let steps = steps::take();
            assert!(
                steps <= MOST,
                "{steps} steps with {} entries left",
                ids.len()
            );
        }
    }
}

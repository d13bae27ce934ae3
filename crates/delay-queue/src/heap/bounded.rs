//! Tests: no single operation moves or looks at more than a bounded number of keys, however many
//! there are. They count, and do not measure.

use alloc::vec::Vec;

use super::{DelayHeap, NEVER, steps};

/// Two lists of the length at which they are cut, with a chunk each, and what is done to them: each
/// key is looked at when it is gathered, and when it is put into its bucket.
const MOST: u64 = 5 * (super::line::Sizes::USUAL.leaf as u64 + 64);
const MANY: u64 = 100_000;

struct Checked(DelayHeap<u64>, u64);

impl Checked {
    fn new() -> Self {
        steps::take();
        Self(DelayHeap::new(), 0)
    }

    fn check(&mut self) {
        self.1 = self.1.max(steps::take());
        assert!(
            self.1 <= MOST,
            "{} steps, at {} entries",
            self.1,
            self.0.len()
        );
    }

    fn push(&mut self, due: u64) -> super::EntryId {
        let id = self.0.push(due, due);
        self.check();
        id
    }

    fn pop_all(&mut self) {
        let mut last = 0;
        while let Some(entry) = self.0.pop() {
            self.check();
            assert!(entry.due >= last);
            last = entry.due;
        }
    }
}

/// A sequence that goes everywhere, in no order.
fn scattered(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

fn filled(due: impl Fn(u64) -> u64) -> (Checked, Vec<super::EntryId>) {
    let mut heap = Checked::new();
    let ids = (0..MANY).map(|index| heap.push(due(index))).collect();
    (heap, ids)
}

#[test]
fn a_push_and_a_pop_take_few_steps_whatever_the_order() {
    let orders: [fn(u64) -> u64; 8] = [
        scattered,
        |index| index,
        |index| MANY - index,
        |index| [5, 9, 1 << 50, NEVER, 7][usize::try_from(scattered(index) % 5).unwrap()],
        |index| 1 << (scattered(index) % 60),
        |index| scattered(index) % 300 + (scattered(index) >> 32 << 40),
        |index| index + scattered(index) % 1_000,
        |index| {
            if index < MANY / 2 {
                MANY + scattered(index)
            } else {
                scattered(index) % MANY
            }
        },
    ];
    for due in orders {
        let (mut heap, _) = filled(due);
        heap.pop_all();
    }
}

#[test]
fn a_steady_state_takes_few_steps_at_a_time() {
    let (mut heap, _) = filled(scattered);
    for index in 0..2 * MANY {
        let now = heap.0.pop().unwrap().due;
        heap.check();
        heap.push(now + scattered(index));
    }
}

#[test]
fn a_reset_and_a_removal_take_few_steps_whatever_lies_around() {
    for due in [
        scattered as fn(u64) -> u64,
        |index| index,
        |_| NEVER,
        |index| index % 3,
    ] {
        let (mut heap, ids) = filled(due);
        for round in 0..3 {
            for (index, id) in (0..).zip(&ids) {
                heap.0.reset(*id, due(index + round));
                heap.check();
            }
        }
        // All but the first and the last, and then whatever is first.
        for id in &ids[1..ids.len() - 1] {
            heap.0.remove(*id);
            heap.check();
        }
        heap.pop_all();
    }
}

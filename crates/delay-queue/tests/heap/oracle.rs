//! The oracle of the heap: a `BTreeMap` in the order in which entries leave, with the shortest
//! correct code for every operation, and the programs that run on both.
//!
//! It does not depend on the source of the programs, so the fuzz target includes this file too.

use std::collections::BTreeMap;

use delay_queue::{CheckedOut, DelayHeap, EntryId, NEVER};

/// All values of a program differ.
type Value = u32;
type Heap = DelayHeap<Value>;

/// One call, or many of a kind. Numbers are small, so that programs reach the same times
/// repeatedly.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Push { due: u64 },
    PushMany { count: u32, due: u64, step: Step },
    Remove { pick: usize },
    RemoveEvery { nth: usize, backwards: bool },
    Reset { pick: usize, due: u64 },
    ResetEvery { nth: usize, due: u64 },
    Pop,
    PopReady { now: u64 },
    DrainReady { now: u64, max: usize },
    CountReady { now: u64, limit: usize },
    NextAfter { now: u64 },
    CheckOut { now: u64 },
    CheckIn { pick: usize },
    Settle { pick: usize },
    Shrink { min_capacity: usize },
    Reserve { additional: usize },
    Clear,
}

/// The step from the time of one push to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    By(u64),
    Back(u64),
    /// Anywhere within this range.
    Scattered(u64),
}

impl Op {
    /// Every operation can be decoded from some bytes.
    pub(crate) fn from_bytes([kind, a, b, c]: [u8; 4]) -> Self {
        let due = time(a, b);
        let (pick, max) = (usize::from(b) << 8 | usize::from(c), usize::from(c % 32));
        match kind % 32 {
            0..=4 => Self::Push { due },
            5..=8 => Self::PushMany {
                count: u32::from(c) % 100,
                due,
                step: match kind / 32 {
                    0 => Step::By(0),
                    1 => Step::By(u64::from(c)),
                    2 => Step::By(1 << (c % 32)),
                    3 => Step::Back(1 << (c % 32)),
                    _ => Step::Scattered(1 << (c % 60)),
                },
            },
            9..=11 => Self::Remove { pick },
            12 => Self::RemoveEvery {
                nth: 1 + usize::from(c % 8),
                backwards: b % 2 == 0,
            },
            13..=15 => Self::Reset { pick, due },
            16 => Self::ResetEvery {
                nth: 1 + usize::from(c % 8),
                due,
            },
            17..=19 => Self::Pop,
            20 => Self::PopReady { now: due },
            21 => Self::DrainReady { now: due, max },
            22 => Self::DrainReady {
                now: due,
                max: usize::MAX,
            },
            23 => Self::CountReady {
                now: due,
                limit: if c == 0 { usize::MAX } else { max },
            },
            24 => Self::NextAfter { now: due },
            25 | 26 => Self::CheckOut { now: due },
            27 | 28 => Self::CheckIn { pick },
            29 => Self::Settle { pick },
            30 => Self::Shrink {
                min_capacity: usize::from(b),
            },
            _ if a % 8 == 0 => Self::Clear,
            _ if a % 8 == 1 => Self::Reserve {
                additional: usize::from(b),
            },
            _ => Self::Pop,
        }
    }
}

/// A few times of all magnitudes; the last two are `NEVER` and the time before it.
fn time(a: u8, b: u8) -> u64 {
    match b % 64 {
        62 => NEVER - u64::from(a % 4),
        63 => NEVER,
        shift => u64::from(a) << (shift.min(56)),
    }
}

/// Runs the program on a heap and on its oracle.
///
/// Order numbers and generations start at these values. Short lists and few keys reach every kind of cut.
///
/// # Panics
///
/// If an answer or a state differs.
pub(crate) fn walk(
    order: u32,
    generation: u32,
    ops: impl IntoIterator<Item = Op>,
    has_short_lists: bool,
) {
    let heap = Heap::beginning_with(u64::from(order), generation);
    let mut pair = Pair {
        heap: if has_short_lists {
            heap.with_short_lists()
        } else {
            heap
        },
        oracle: BTreeMap::new(),
        ids: Vec::new(),
        out: Vec::new(),
        pushes: 0,
    };
    // Its ids have the same slots and generations as ours, but belong to another heap.
    let mut foreign = Heap::beginning_with(u64::from(order), generation);
    pair.ids.push(foreign.push(0, 0));
    pair.ids.push(foreign.push(0, 1));
    for op in ops {
        pair.step(op);
        pair.compare();
    }
    pair.compare_all();
    let left = pair.heap.into_sorted_vec().into_iter();
    let left = left.map(|entry| (entry.due, entry.id, entry.value));
    let expected = pair.oracle.into_iter();
    assert!(left.eq(expected.map(|((due, _), (id, value))| (due, id, value))));
}

struct Pair {
    heap: Heap,
    /// By due time and number of the push.
    oracle: BTreeMap<(u64, u64), (EntryId, Value)>,
    /// The ids of all entries that have ever been pushed.
    ids: Vec<EntryId>,
    /// The checked-out entries, with their keys in the oracle.
    out: Vec<(CheckedOut<Value>, (u64, u64))>,
    pushes: u64,
}

impl Pair {
    fn step(&mut self, op: Op) {
        match op {
            Op::Push { due } => self.push(due),
            Op::PushMany { count, due, step } => {
                let mut due = due;
                for index in 0..count {
                    self.push(due);
                    due = match step {
                        Step::By(step) => due.saturating_add(step),
                        Step::Back(step) => due.saturating_sub(step),
                        Step::Scattered(span) => {
                            u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15) % span
                        }
                    };
                }
            }
            Op::Remove { pick } => self.remove(pick),
            Op::RemoveEvery { nth, backwards } => {
                let mut picks: Vec<_> = (0..self.ids.len()).step_by(nth).collect();
                if backwards {
                    picks.reverse();
                }
                for pick in picks {
                    self.remove(pick);
                }
            }
            Op::Reset { pick, due } => self.reset(pick, due),
            Op::ResetEvery { nth, due } => {
                for pick in (0..self.ids.len()).step_by(nth) {
                    self.reset(pick, due.wrapping_add(pick as u64));
                }
            }
            Op::Pop => {
                let expected = self.oracle.pop_first();
                self.check_popped(expected);
            }
            Op::PopReady { now } => {
                let popped = self.heap.pop_ready(now);
                let popped = popped.map(|entry| (entry.due, entry.id, entry.value));
                assert_eq!(popped, self.pop_ready(now));
            }
            Op::DrainReady { now, max } => {
                // Either reaches its end or is dropped halfway.
                let drained: Vec<_> = self.heap.drain_ready(now, max).collect();
                for entry in &drained {
                    let expected = self.pop_ready(now);
                    assert_eq!(Some((entry.due, entry.id, entry.value)), expected);
                }
                assert!(drained.len() == max || !self.is_ready(now));
            }
            Op::CountReady { now, limit } => {
                let ready = self.oracle.keys().take_while(|key| is_due(key.0, now));
                assert_eq!(self.heap.count_ready(now, limit), ready.take(limit).count());
            }
            Op::NextAfter { now } => {
                let mut later = self.oracle.keys().filter(|key| !is_due(key.0, now));
                let later = later.next().map(|key| key.0);
                assert_eq!(self.heap.next_after(now), later);
            }
            Op::CheckOut { now } => self.check_out(now),
            Op::CheckIn { pick } => self.check_in(pick),
            Op::Settle { pick } => self.settle(pick),
            Op::Shrink { min_capacity } => {
                self.heap.shrink_to(min_capacity);
                assert!(self.heap.capacity() >= self.heap.len());
            }
            Op::Reserve { additional } => {
                assert_eq!(self.heap.try_reserve(additional), Ok(()));
                assert!(self.heap.capacity() >= self.heap.len() + additional);
            }
            Op::Clear => {
                self.heap.clear();
                self.oracle.clear();
            }
        }
    }

    fn push(&mut self, due: u64) {
        let value = Value::try_from(self.pushes).expect("programs are short");
        let id = self.heap.push(value, due);
        assert!(!self.ids.contains(&id), "{id:?} names two entries");
        self.ids.push(id);
        self.place(due, id, value);
    }

    fn place(&mut self, due: u64, id: EntryId, value: Value) {
        self.oracle.insert((due, self.pushes), (id, value));
        self.pushes += 1;
    }

    fn remove(&mut self, pick: usize) {
        let id = self.ids[pick % self.ids.len()];
        let removed = self.heap.remove(id);
        let removed = removed.map(|entry| (entry.due, entry.id, entry.value));
        let expected = self.find(id).map(|key| {
            let (id, value) = self.oracle.remove(&key).expect("it was found");
            (key.0, id, value)
        });
        assert_eq!(removed, expected);
    }

    fn reset(&mut self, pick: usize, due: u64) {
        let id = self.ids[pick % self.ids.len()];
        let key = self.find(id);
        assert_eq!(self.heap.reset(id, due), key.map(|key| key.0));
        if let Some(key) = key {
            let (id, value) = self.oracle.remove(&key).expect("it was found");
            // Equal to a new push except for the value.
            self.place(due, id, value);
        }
    }

    fn check_out(&mut self, now: u64) {
        let out = self.heap.check_out(now);
        let key = self.oracle.keys().next().copied();
        let expected = self.pop_ready(now);
        let seen = out.as_ref().map(|out| (out.due(), out.id(), *out.value()));
        assert_eq!(seen, expected);
        if let (Some(out), Some(key)) = (out, key) {
            assert_eq!(self.heap.remove(out.id()), None);
            self.out.push((out, key));
        }
    }

    fn check_in(&mut self, pick: usize) {
        if self.out.is_empty() {
            return;
        }
        let (out, key) = self.out.swap_remove(pick % self.out.len());
        let value = *out.value();
        // Through an offer that is refused.
        let (offered, place) = out.split();
        let id = self
            .heap
            .check_in(place.with(offered))
            .expect("it is from here");
        self.oracle.insert(key, (id, value));
    }

    fn settle(&mut self, pick: usize) {
        if self.out.is_empty() {
            return;
        }
        let (out, key) = self.out.swap_remove(pick % self.out.len());
        let entry = self.heap.settle(out).expect("it is from here");
        assert_eq!(entry.due, key.0);
        assert!(!self.heap.contains(entry.id));
    }

    fn find(&self, id: EntryId) -> Option<(u64, u64)> {
        let found = self.oracle.iter().find(|(_, entry)| entry.0 == id);
        found.map(|(key, _)| *key)
    }

    fn is_ready(&self, now: u64) -> bool {
        let first = self.oracle.keys().next();
        first.is_some_and(|key| is_due(key.0, now))
    }

    fn pop_ready(&mut self, now: u64) -> Option<(u64, EntryId, Value)> {
        if !self.is_ready(now) {
            return None;
        }
        let ((due, _), (id, value)) = self.oracle.pop_first()?;
        Some((due, id, value))
    }

    fn check_popped(&mut self, expected: Option<((u64, u64), (EntryId, Value))>) {
        let popped = self
            .heap
            .pop()
            .map(|entry| (entry.due, entry.id, entry.value));
        assert_eq!(
            popped,
            expected.map(|((due, _), (id, value))| (due, id, value))
        );
    }

    /// Compares the state that is cheap to compare.
    fn compare(&self) {
        assert_eq!(self.heap.len(), self.oracle.len());
        assert_eq!(self.heap.is_empty(), self.oracle.is_empty());
        let first = self.oracle.first_key_value();
        let first = first.map(|((due, _), (id, value))| (*due, *id, value));
        let peeked = self.heap.peek();
        assert_eq!(
            peeked.map(|entry| (entry.due, entry.id, entry.value)),
            first
        );
        assert_eq!(self.heap.peek_due(), first.map(|(due, ..)| due));
    }

    fn compare_all(&mut self) {
        let mut entries: Vec<_> = self.heap.iter().collect();
        assert_eq!(entries.len(), self.heap.iter().len());
        entries.sort_by_key(|entry| *entry.value);
        let expected = self
            .oracle
            .iter()
            .map(|((due, _), (id, value))| (*due, *id, *value));
        let mut expected: Vec<_> = expected.collect();
        expected.sort_by_key(|entry| entry.2);
        let entries = entries.into_iter();
        assert!(
            entries
                .map(|entry| (entry.due, entry.id, *entry.value))
                .eq(expected)
        );
        for &id in &self.ids {
            let key = self.find(id);
            let value = key.map(|key| self.oracle[&key].1);
            assert_eq!(self.heap.due(id), key.map(|key| key.0));
            assert_eq!(self.heap.get(id).copied(), value);
            assert_eq!(self.heap.get_mut(id).copied(), value);
            assert_eq!(self.heap.contains(id), key.is_some());
        }
    }
}

fn is_due(due: u64, now: u64) -> bool {
    due <= now && due != NEVER
}

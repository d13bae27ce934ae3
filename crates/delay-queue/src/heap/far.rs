//! Keys that need not be in order yet: a ladder.
//!
//! A rung is a stretch of time cut into equal buckets, each an unsorted list. Its buckets are used
//! up one after another; one with too many keys becomes a rung of its own, with finer buckets, and
//! that is used up before it. Behind the first rung's end lies the rest.
//!
//! # Invariants
//! 1. All keys here are due at `edge` or later, and so are all that are pushed.
//! 2. A rung ends where the current bucket of the rung before it ends, or sooner. Therefore the
//!    current buckets, from the last rung to the first, and the rest behind them, cover the time
//!    from `edge` on without a gap.
//! 3. There are no more than `MOST_RUNGS` rungs: so often, at most, a key moves.

use alloc::vec::Vec;
use core::mem;

use super::chunks::{Chunks, List};
use super::key::Key;
use super::place::Place;
use super::slots::Slots;

/// A list of no more keys than this is sorted at once.
pub(super) const FEW: usize = 64;
/// How many keys a bucket should get.
const SHARE: usize = 8;
const FEWEST_BUCKETS: usize = 128;
const MOST_BUCKETS: usize = 256;
const MOST_RUNGS: usize = 16;

#[derive(Debug)]
pub(super) struct Far {
    rungs: Vec<Rung>,
    /// Keys that are due when the first rung has ended.
    rest: List,
    /// When the first and the last of those are due.
    rest_span: Span,
    /// Keys that never fall due.
    never: List,
    edge: u64,
}

#[derive(Debug)]
struct Rung {
    start: u64,
    end: u64,
    /// A bucket is 2^shift long.
    shift: u32,
    /// The first bucket that is not used up.
    current: usize,
    buckets: Vec<List>,
}

/// From one time to another, both included.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    last: u64,
}

impl Far {
    pub(super) const fn new() -> Self {
        Self {
            rungs: Vec::new(),
            rest: List::EMPTY,
            rest_span: Span::NONE,
            never: List::EMPTY,
            edge: u64::MAX,
        }
    }

    #[inline]
    pub(super) fn edge(&self) -> u64 {
        self.edge
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rungs.is_empty() && self.rest.is_empty() && self.never.is_empty()
    }

    /// Adds a key that is due at the edge or later, and tells where it lies.
    #[inline]
    pub(super) fn push(&mut self, key: Key, chunks: &mut Chunks) -> Place {
        let rungs = self.rungs.iter_mut().rev();
        let list = match rungs.into_iter().find(|rung| key.due < rung.end) {
            Some(rung) => rung.bucket(key.due),
            None if key.due == u64::MAX => &mut self.never,
            None => {
                self.rest_span.include(key.due);
                &mut self.rest
            }
        };
        chunks.push(list, key.slot())
    }

    /// Makes a rung of keys that are due before the edge, unless that is of no use.
    pub(super) fn take<T>(
        &mut self,
        keys: &[Key],
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) -> bool {
        let mut span = Span::NONE;
        for key in keys {
            span.include(key.due);
        }
        if span.first == span.last || self.rungs.len() == MOST_RUNGS {
            return false;
        }
        while self.rungs.last().is_some_and(Rung::is_used_up) {
            self.rungs.pop();
        }
        self.cut(span, keys.len(), self.edge);
        for key in keys {
            slots.moved(key.slot(), self.push(*key, chunks));
        }
        true
    }

    /// Moves the keys that are due first out of here, with all others due before the new edge.
    pub(super) fn pull<T>(
        &mut self,
        into: &mut Vec<Key>,
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) {
        while into.is_empty() && !self.is_empty() {
            let (list, span, end) = match self.rungs.last_mut() {
                Some(rung) => {
                    let Some((list, span)) = rung.next(self.edge) else {
                        self.edge = rung.end;
                        self.rungs.pop();
                        continue;
                    };
                    (list, span, span.last + 1)
                }
                None if self.rest.is_empty() => {
                    self.edge = u64::MAX;
                    let list = mem::replace(&mut self.never, List::EMPTY);
                    return gather(list, into, chunks, slots);
                }
                None => {
                    let list = mem::replace(&mut self.rest, List::EMPTY);
                    let span = mem::replace(&mut self.rest_span, Span::NONE);
                    (list, span, u64::MAX)
                }
            };
            if !list.is_one_chunk() && span.first < span.last && self.rungs.len() < MOST_RUNGS {
                let count = chunks.len(list);
                if count > FEW {
                    self.cut(span, count, end);
                    self.spread(list, chunks, slots);
                    continue;
                }
            }
            gather(list, into, chunks, slots);
            if let Some(rung) = self.rungs.last_mut() {
                rung.current += 1;
            }
            self.edge = end;
        }
        if self.is_empty() {
            self.edge = u64::MAX;
        }
    }

    /// Empties all lists, so that the keys can be pushed again.
    pub(super) fn forget_all(&mut self) {
        for list in self.rungs.iter_mut().flat_map(|rung| &mut rung.buckets) {
            *list = List::EMPTY;
        }
        self.rest = List::EMPTY;
        self.never = List::EMPTY;
    }

    /// Adds a rung for so many keys in this span, which ends at `end` at the latest.
    fn cut(&mut self, span: Span, count: usize, end: u64) {
        let count = (count / SHARE).next_power_of_two();
        let count = count.clamp(FEWEST_BUCKETS, MOST_BUCKETS);
        let length = span.last - span.first;
        let shift = (u64::BITS - length.leading_zeros()).saturating_sub(count.ilog2());
        let count = small(length >> shift) + 1;
        let covered = u128::from(span.first) + ((count as u128) << shift);
        self.edge = span.first;
        self.rungs.push(Rung {
            start: span.first,
            end: u64::try_from(covered).map_or(end, |covered| covered.min(end)),
            shift,
            current: 0,
            buckets: alloc::vec![List::EMPTY; count],
        });
    }

    /// Moves the keys of a list to the last rung.
    fn spread<T>(&mut self, mut list: List, chunks: &mut Chunks, slots: &mut Slots<T>) {
        while let Some(chunk) = chunks.pop(&mut list) {
            for (slot, place) in chunk.slots() {
                match slots.lift(slot, place) {
                    Some((key, place)) => *place = self.push(key, chunks),
                    None => chunks.forget_one(),
                }
            }
        }
    }
}

/// The number of a bucket, of which there are few.
#[expect(clippy::cast_possible_truncation, reason = "there are few")]
fn small(bucket: u64) -> usize {
    bucket as usize
}

/// Moves the keys of a list out of here.
fn gather<T>(mut list: List, into: &mut Vec<Key>, chunks: &mut Chunks, slots: &Slots<T>) {
    while let Some(chunk) = chunks.pop(&mut list) {
        for (slot, place) in chunk.slots() {
            match slots.key_at(slot, place) {
                Some(key) => into.push(key),
                None => chunks.forget_one(),
            }
        }
    }
}

impl Rung {
    fn is_used_up(&self) -> bool {
        self.current == self.buckets.len()
    }

    /// The list for keys that are due then. The current bucket takes what is due before it: it
    /// begins where the rung after this one ends.
    #[inline]
    fn bucket(&mut self, due: u64) -> &mut List {
        let index = due.saturating_sub(self.start) >> self.shift;
        &mut self.buckets[small(index).max(self.current)]
    }

    /// The first list that is not empty, and what it spans. Afterwards it is empty.
    fn next(&mut self, edge: u64) -> Option<(List, Span)> {
        let rest = &self.buckets[self.current..];
        let passed = rest.iter().position(|list| !list.is_empty())?;
        self.current += passed;
        let list = mem::replace(&mut self.buckets[self.current], List::EMPTY);
        let start = self.start + ((self.current as u64) << self.shift);
        let span = Span {
            first: if passed == 0 { edge } else { start },
            last: start + ((1 << self.shift) - 1).min(self.end - 1 - start),
        };
        Some((list, span))
    }
}

impl Span {
    const NONE: Self = Self {
        first: u64::MAX,
        last: 0,
    };

    #[inline]
    fn include(&mut self, due: u64) {
        self.first = self.first.min(due);
        self.last = self.last.max(due);
    }
}

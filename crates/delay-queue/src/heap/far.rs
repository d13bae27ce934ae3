//! Keys that need not be sorted yet: a ladder queue.
//!
//! A rung is a stretch of time, cut into equal buckets, each an unsorted list. Buckets are consumed
//! one after another. A bucket with too many keys becomes a rung of its own, with finer buckets,
//! which is consumed before the rest of the outer rung. Keys after the first rung's end are the
//! rest.
//!
//! Lists stay short. A list that reaches `limit` keys is cut at once by the push that finds it
//! full, long before its time comes. The resulting rung is a child of its bucket, and later keys of
//! that bucket go to the child. So no operation moves more keys than a few lists have. Keys that
//! are all due at the same time are cut by their order numbers.
//!
//! Cutting moves each key once more, so a rung should have enough buckets for its keys. The number
//! of future keys is unknown when the first rung is made, and a few keys in many buckets waste
//! memory. So that rung starts with few buckets, and is *widened* once, while its keys are still
//! few enough to be moved by one operation.
//!
//! # Invariants
//! 1. No key here is before the `edge`, and no pushed key is.
//! 2. A rung ends where the current bucket of the previous rung ends, or earlier. Therefore the
//!    current buckets, from the last rung to the first, and the rest after them, cover the time
//!    from `edge` on without a gap.
//! 3. A child has the keys of its bucket and no others. Each of its buckets is finer than that
//!    bucket, or cut by order: this bounds how often a key moves.

use alloc::vec::Vec;
use core::mem;

use super::chunks::{CHUNK, Chunks, List};
use super::key::Key;
use super::place::Place;
use super::slots::Slots;
use super::steps;

const KEYS_PER_BUCKET: usize = 8;
const FEWEST_BUCKETS: usize = 16;
/// Assumed number of keys of which only the first few are known.
const EXPECTED: usize = 1_024;
const MOST_BUCKETS: usize = 1 << MOST_BITS;
const MOST_BITS: u32 = 8;
/// Maximum number of buckets of a widened rung, unless it already had more than half as many.
const MOST_WIDE_BUCKETS: usize = 512;
/// In a rung cut by order numbers, the existing keys get 2^-`ROOM_BITS` of the buckets; later keys
/// get the rest.
const ROOM_BITS: u32 = 4;
/// With a larger shift, the order number at which a bucket starts could overflow.
const MOST_ORDER_SHIFT: u32 = u64::BITS - 2 * MOST_BITS;
/// Number of buckets, most of them empty, that one step of a sweep visits.
const SWEPT_BUCKETS: usize = 64;
/// With this many rungs, each further one is twice as long as the previous one, or as long as its
/// keys need.
const MANY_RUNGS: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// A list with this many keys is cut before it gets more.
    pub(super) limit: usize,
    /// A list of at most this many keys is sorted at once.
    pub(super) few: usize,
    /// A list that reaches this many keys is a reason to check whether its rung should be widened.
    watched: usize,
    /// A rung with this many keys is worth widening ..
    many: usize,
    /// .. unless it has more than this many, too many to be moved at once.
    too_many: usize,
}

impl Sizes {
    pub(super) const USUAL: Self = Self {
        limit: 8_192,
        few: 64,
        watched: 128,
        many: 12_288,
        too_many: 24_576,
    };
    /// The smallest limits, so that tests see every kind of cut with few keys.
    pub(super) const LEAST: Self = Self {
        limit: 2 * CHUNK,
        few: 4,
        watched: CHUNK,
        many: 3 * CHUNK,
        too_many: 64 * CHUNK,
    };
}

#[derive(Debug)]
pub(super) struct Far {
    rungs: Vec<Rung>,
    /// Rungs that have replaced full buckets, and the indices of unused ones.
    children: Vec<Rung>,
    unused: Vec<u32>,
    /// Keys that are due after the first rung.
    rest: Rest,
    never: List,
    edge: Key,
    /// A list with this many keys is long: its rung is widened, or the list is cut.
    long: usize,
    sizes: Sizes,
    sweep: Sweep,
}

/// The next list to sweep: first those of the rungs, then those of the children, the rest, and the
/// keys that are never due.
#[derive(Debug)]
struct Sweep {
    rung: usize,
    bucket: usize,
    /// Number of this list's chunks that are not swept yet; zero before its first chunk.
    chunks: usize,
}

#[derive(Debug)]
struct Rung {
    start: u64,
    end: Key,
    /// The length of a bucket is 2^shift.
    shift: u32,
    /// Whether the rung is cut by order numbers. If so, `start` is an order number, and all keys
    /// are due at the end's time.
    by_order: bool,
    /// The first bucket that has not been consumed.
    current: usize,
    buckets: Vec<List>,
}

/// Keys, with the due times of the first and the last of them.
#[derive(Clone, Copy, Debug)]
struct Rest {
    list: List,
    span: Span,
}

/// A range of times or order numbers, both ends included.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    last: u64,
}

impl Far {
    pub(super) const fn new(sizes: Sizes) -> Self {
        Self {
            rungs: Vec::new(),
            children: Vec::new(),
            unused: Vec::new(),
            rest: Rest::EMPTY,
            never: List::EMPTY,
            edge: Key::NEVER,
            long: sizes.watched,
            sizes,
            sweep: Sweep::START,
        }
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.sizes
    }

    #[inline]
    pub(super) fn edge(&self) -> Key {
        self.edge
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rungs.is_empty() && self.rest.list.is_empty() && self.never.is_empty()
    }

    /// Adds a key that is not before the edge, and returns its place.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    pub(super) fn push<T>(&mut self, key: Key, chunks: &mut Chunks, slots: &mut Slots<T>) -> Place {
        let list = Self::root(&mut self.rungs, &mut self.rest, &mut self.never, key);
        match chunks.push_to_short(list, key.slot(), self.long) {
            Some(place) => place,
            None => self.push_elsewhere(key, chunks, slots),
        }
    }

    /// Like `push`, for keys that were here before: cuts no list.
    #[inline]
    pub(super) fn put(&mut self, key: Key, chunks: &mut Chunks) -> Place {
        chunks.push(self.list(key), key.slot())
    }

    /// Like `push`, also for a list that is long or belongs to a child.
    #[inline(never)]
    fn push_elsewhere<T>(&mut self, key: Key, chunks: &mut Chunks, slots: &mut Slots<T>) -> Place {
        loop {
            let is_in_rung = self.rungs.first().is_some_and(|rung| key < rung.end);
            let long = if is_in_rung {
                self.long
            } else {
                self.sizes.limit
            };
            if let Some(place) = chunks.push_to_short(self.list(key), key.slot(), long) {
                return place;
            }
            if long == self.sizes.limit {
                break;
            }
            self.widen(key, chunks, slots);
        }
        self.cut_list(key, chunks, slots);
        // All keys may have gone to one bucket again. It is cut when it gets more.
        self.put(key, chunks)
    }

    /// Returns the list to which a key belongs, or the child that replaces it.
    #[inline]
    fn root<'a>(
        rungs: &'a mut [Rung],
        rest: &'a mut Rest,
        never: &'a mut List,
        key: Key,
    ) -> &'a mut List {
        match rungs.iter_mut().rev().find(|rung| key < rung.end) {
            Some(rung) => rung.bucket(key),
            None if key.due == u64::MAX => never,
            None => {
                rest.span.include(key.due);
                &mut rest.list
            }
        }
    }

    #[inline]
    fn list(&mut self, key: Key) -> &mut List {
        let list = Self::root(&mut self.rungs, &mut self.rest, &mut self.never, key);
        let Some(mut child) = list.child() else {
            return list;
        };
        loop {
            let rung = &self.children[child as usize];
            let index = rung.index(key);
            match rung.buckets[index].child() {
                Some(finer) => child = finer,
                None => return &mut self.children[child as usize].buckets[index],
            }
        }
    }

    /// Makes a rung of keys that are due before the edge, unless that is useless.
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
        if span.first == self.edge.due {
            return false;
        }
        while self.rungs.last().is_some_and(Rung::is_used_up) {
            self.rungs.pop();
        }
        let first = span.first;
        if !self.take_back(first) {
            // The new rung ends where the previous one continues; the rest has no such time.
            if let Some(rung) = self.rungs.last() {
                span.last = self.edge.due - 1;
                if self.rungs.len() >= MANY_RUNGS {
                    span.first = first.saturating_sub(rung.length().saturating_mul(2));
                }
            }
            let end = Key::at(self.edge.due);
            // Assumes that the keys now in the heap are the first of as many as there were before.
            let count = EXPECTED.max(slots.count() as usize);
            let mut buckets = buckets_for(count);
            if self.rungs.is_empty() && count >= self.sizes.many {
                buckets = MOST_WIDE_BUCKETS;
                self.long = self.sizes.limit;
            }
            self.rungs.push(Rung::new(span, buckets, end));
        }
        self.edge = Key::at(first);
        for &key in keys {
            steps::count_one();
            slots.moved(key.slot(), self.put(key, chunks));
        }
        true
    }

    /// Moves the first keys out of here, with all others before the new edge.
    pub(super) fn pull<T>(
        &mut self,
        into: &mut Vec<Key>,
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) {
        // Number and span of the keys that the last division has moved.
        let mut moved = (0, Span::NONE);
        while into.is_empty() && !self.is_empty() {
            let Some(rung) = self.rungs.last_mut() else {
                self.pull_rest(into, &mut moved, chunks, slots);
                continue;
            };
            let Some((list, start)) = rung.next() else {
                self.edge = self.edge.max(rung.end);
                self.rungs.pop();
                continue;
            };
            let end = rung.end_of(rung.current);
            let by_order = rung.by_order;
            // Whether more keys may be added to this bucket, or to the remaining part of it.
            let mut is_one_time = rung.shift == 0 || by_order && rung.is_last(rung.current);
            if let Some(start) = start {
                self.edge = self.edge.max(start);
            }
            if let Some(child) = list.child() {
                let child = self.remove_child(child);
                self.rungs.push(child);
                continue;
            }
            if !by_order {
                let span = Span {
                    first: self.edge.due,
                    last: end.due - 1,
                };
                if self.divide(list, span, end, &mut moved, chunks, slots) {
                    continue;
                }
                is_one_time |= moved.0 == chunks.len(list) && moved.1.first == moved.1.last;
            }
            gather(list, into, chunks, slots);
            if is_one_time && let Some(last) = into.iter().max() {
                // More keys with that due time may come. They need not go to the heap: their order
                // numbers are higher.
                self.edge = self.edge.max(last.next());
            } else if let Some(rung) = self.rungs.last_mut() {
                rung.current += 1;
                self.edge = self.edge.max(end);
            }
        }
        if self.is_empty() {
            self.edge = self.edge.max(Key::NEVER);
            self.long = self.sizes.watched;
        }
    }

    /// Continues with the rest after the last rung has been consumed.
    #[cold]
    fn pull_rest<T>(
        &mut self,
        into: &mut Vec<Key>,
        moved: &mut (usize, Span),
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) {
        if !self.rest.list.is_empty() {
            let Rest { list, span } = mem::replace(&mut self.rest, Rest::EMPTY);
            if !self.divide(list, span, Key::NEVER, moved, chunks, slots) {
                gather(list, into, chunks, slots);
                self.edge = self.edge.max(Key::NEVER);
            }
            return;
        }
        let list = mem::replace(&mut self.never, List::EMPTY);
        if let Some(child) = list.child() {
            let child = self.remove_child(child);
            self.rungs.push(child);
            return;
        }
        gather(list, into, chunks, slots);
        // Keys that are pushed from now on have higher order numbers.
        let edge = into.iter().max().map_or(Key::NEVER, |last| last.next());
        self.edge = self.edge.max(edge);
    }

    /// Makes a rung of a list whose time has come, if it is too long to be sorted at once.
    #[inline]
    fn divide<T>(
        &mut self,
        list: List,
        mut span: Span,
        end: Key,
        moved: &mut (usize, Span),
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) -> bool {
        if list.is_one_chunk() && CHUNK <= self.sizes.few {
            return false;
        }
        let count = chunks.len(list);
        if count == moved.0 {
            // All keys went to one bucket. Now the span separates them, if possible.
            span = moved.1;
        }
        if count <= self.sizes.few || span.first >= span.last {
            return false;
        }
        let mut rung = Rung::new(span, buckets_for(count), end);
        self.edge = self.edge.max(Key::at(span.first));
        *moved = (count, rung.spread(list, chunks, slots));
        self.rungs.push(rung);
        true
    }

    /// Empties all lists, so that the keys can be pushed again.
    pub(super) fn forget_all(&mut self) {
        let rungs = self.rungs.iter_mut().chain(&mut self.children);
        for list in rungs.flat_map(|rung| &mut rung.buckets) {
            list.forget();
        }
        self.rest.list.forget();
        self.never.forget();
    }

    /// Frees the memory of all rungs. The caller pushes the keys again.
    pub(super) fn forget_rungs(&mut self) {
        *self = Self {
            edge: self.edge,
            ..Self::new(self.sizes)
        };
    }

    /// Removes the stale keys of one more chunk. Returns false if all lists have been swept; the
    /// next call starts again. Misses lists that have moved to another rung in the meantime.
    pub(super) fn sweep_some<T>(&mut self, chunks: &mut Chunks, slots: &mut Slots<T>) -> bool {
        for _ in 0..SWEPT_BUCKETS {
            let Sweep { rung, bucket, .. } = self.sweep;
            let children = self.rungs.len();
            let after_children = children + self.children.len();
            let list = match rung {
                _ if rung < children => self.rungs[rung].buckets.get_mut(bucket),
                _ if rung < after_children => {
                    self.children[rung - children].buckets.get_mut(bucket)
                }
                _ if rung > after_children => break,
                _ => match bucket {
                    0 => Some(&mut self.rest.list),
                    1 => Some(&mut self.never),
                    _ => None,
                },
            };
            let Some(list) = list else {
                self.sweep.next_rung();
                continue;
            };
            let linked = chunks.linked(*list);
            if linked == 0 {
                self.sweep.next_bucket();
                continue;
            }
            if self.sweep.chunks == 0 {
                self.sweep.chunks = linked / CHUNK;
            }
            chunks.sweep_first(list, slots);
            self.sweep.chunks -= 1;
            if self.sweep.chunks == 0 {
                self.sweep.next_bucket();
            }
            return true;
        }
        let has_more = self.sweep.rung <= self.rungs.len() + self.children.len();
        if !has_more {
            self.sweep = Sweep::START;
        }
        has_more
    }

    /// Gives the rung of a long list more buckets, if it has many keys but not too many. Otherwise
    /// raises the length from which lists count as long.
    #[cold]
    fn widen<T>(&mut self, key: Key, chunks: &mut Chunks, slots: &mut Slots<T>) {
        self.long = self.sizes.limit.min(self.long + self.sizes.watched / 4);
        let Some(rung) = self.rungs.iter_mut().rev().find(|rung| key < rung.end) else {
            return;
        };
        let keys: usize = rung.buckets.iter().map(|&list| chunks.linked(list)).sum();
        if keys < self.sizes.many || rung.by_order {
            return;
        }
        self.long = self.sizes.limit;
        let bits = (MOST_WIDE_BUCKETS / rung.buckets.len()).max(1).ilog2();
        let bits = bits.min(rung.shift);
        if keys > self.sizes.too_many || bits == 0 {
            return;
        }
        let wide = alloc::vec![List::EMPTY; rung.buckets.len() << bits];
        let lists = mem::replace(&mut rung.buckets, wide);
        rung.shift -= bits;
        rung.current <<= bits;
        for list in lists {
            rung.spread(list, chunks, slots);
        }
    }

    /// Makes a rung of the full list to which a key belongs.
    #[cold]
    fn cut_list<T>(&mut self, key: Key, chunks: &mut Chunks, slots: &mut Slots<T>) {
        let mut rung = self.rungs.iter().rev().find(|rung| key < rung.end);
        if rung.is_none() && key.due < u64::MAX {
            return self.cut_rest(chunks, slots);
        }
        let mut list = rung.map_or(self.never, |rung| rung.buckets[rung.index(key)]);
        while let Some(child) = list.child() {
            let child = &self.children[child as usize];
            list = child.buckets[child.index(key)];
            rung = Some(child);
        }
        let orders = || orders(list, chunks, slots);
        let child = match rung {
            Some(rung) => rung.finer(rung.index(key), orders),
            None => Some(Rung::of_one_time(u64::MAX, orders(), 0)),
        };
        if let Some(mut child) = child {
            child.spread(list, chunks, slots);
            let child = self.add_child(child);
            *self.list(key) = List::of_child(child);
        }
    }

    /// Makes the rest the first rung.
    ///
    /// The new rung is as long as the previous one, because keys that are pushed as time passes are
    /// due about as far after that rung's end as it is long. If there are many rungs, it is twice
    /// as long: so there are never more than some 60 of them.
    fn cut_rest<T>(&mut self, chunks: &mut Chunks, slots: &mut Slots<T>) {
        let Rest { list, mut span } = mem::replace(&mut self.rest, Rest::EMPTY);
        let before = self.rungs.first().map_or(0, Rung::length);
        let buckets = self.rungs.first().map_or(0, |rung| rung.buckets.len());
        let times = 1 + u64::from(self.rungs.len() >= MANY_RUNGS);
        let length = before.saturating_mul(times);
        span.first = self.rungs.first().map_or(self.edge, |rung| rung.end).due;
        span.last = span
            .last
            .max(span.first.saturating_add(length))
            .min(u64::MAX - 1);
        let buckets = buckets.next_power_of_two();
        let buckets = buckets.max(buckets_for(self.sizes.limit));
        let mut rung = Rung::new(span, buckets, Key::NEVER);
        rung.spread(list, chunks, slots);
        self.rungs.insert(0, rung);
    }

    /// Returns to a bucket of the last rung to which keys of this time belong, if there are many
    /// rungs.
    fn take_back(&mut self, due: u64) -> bool {
        let are_many = self.rungs.len() >= MANY_RUNGS;
        match self.rungs.last_mut() {
            // The current bucket has no key due before its start: its keys were pushed when they
            // were after the edge.
            Some(rung)
                if are_many
                    && rung.start <= due
                    && !rung.by_order
                    && rung.start_of(rung.current) <= self.edge.due =>
            {
                rung.current = small((due - rung.start) >> rung.shift);
                true
            }
            _ => false,
        }
    }

    fn add_child(&mut self, child: Rung) -> u32 {
        if let Some(unused) = self.unused.pop() {
            self.children[unused as usize] = child;
            return unused;
        }
        self.children.push(child);
        super::chunks::small(self.children.len() - 1)
    }

    fn remove_child(&mut self, child: u32) -> Rung {
        self.unused.push(child);
        mem::replace(&mut self.children[child as usize], Rung::UNUSED)
    }
}

fn buckets_for(keys: usize) -> usize {
    let count = (keys / KEYS_PER_BUCKET).next_power_of_two();
    count.clamp(FEWEST_BUCKETS, MOST_BUCKETS)
}

#[expect(clippy::cast_possible_truncation, reason = "there are few buckets")]
fn small(bucket: u64) -> usize {
    bucket as usize
}

fn orders<T>(list: List, chunks: &Chunks, slots: &Slots<T>) -> Span {
    let mut span = Span::NONE;
    for (slot, place) in chunks.iter(list) {
        steps::count_one();
        if let Some(key) = slots.key_at(slot, place) {
            span.include(key.order());
        }
    }
    span
}

fn gather<T>(mut list: List, into: &mut Vec<Key>, chunks: &mut Chunks, slots: &Slots<T>) {
    while let Some(chunk) = chunks.pop(&mut list) {
        for (slot, place) in chunk.slots() {
            steps::count_one();
            match slots.key_at(slot, place) {
                Some(key) => into.push(key),
                None => chunks.forget_one(),
            }
        }
    }
}

impl Rung {
    const UNUSED: Self = Self {
        start: 0,
        end: Key::FIRST,
        shift: 0,
        by_order: false,
        current: 0,
        buckets: Vec::new(),
    };

    /// Creates a rung for keys in this span, which ends at `end` at the latest, with at most `most`
    /// buckets, a power of two.
    fn new(span: Span, most: usize, end: Key) -> Self {
        let length = span.last - span.first;
        let shift = (u64::BITS - length.leading_zeros()).saturating_sub(most.ilog2());
        let count = small(length >> shift) + 1;
        let covered = u128::from(span.first) + ((count as u128) << shift);
        Self {
            start: span.first,
            end: u64::try_from(covered).map_or(end, |covered| end.min(Key::at(covered))),
            shift,
            by_order: false,
            current: 0,
            buckets: alloc::vec![List::EMPTY; count],
        }
    }

    /// Creates a rung for keys with the same due time, of which the existing ones have these order
    /// numbers. The last bucket takes all keys that do not fit into the others.
    fn of_one_time(due: u64, orders: Span, least_shift: u32) -> Self {
        let length = orders.last.saturating_sub(orders.first);
        let shift = (u64::BITS - length.leading_zeros()).saturating_sub(MOST_BITS - ROOM_BITS);
        Self {
            start: orders.first,
            end: Key::behind(due, u64::MAX),
            shift: shift.max(least_shift).min(MOST_ORDER_SHIFT),
            by_order: true,
            current: 0,
            buckets: alloc::vec![List::EMPTY; MOST_BUCKETS],
        }
    }

    /// Creates a rung for the keys of one of its buckets, unless nothing separates them.
    fn finer(&self, bucket: usize, orders: impl FnOnce() -> Span) -> Option<Self> {
        if self.by_order && self.is_last(bucket) && self.end.order() == u64::MAX {
            // With longer buckets, so that nesting stays shallow however many keys have that due
            // time.
            let shift = self.shift + ROOM_BITS / 2;
            return Some(Self::of_one_time(self.end.due, orders(), shift));
        }
        if self.shift == 0 {
            let due = self.start_of(bucket);
            return (!self.by_order).then(|| Self::of_one_time(due, orders(), 0));
        }
        let shift = self.shift.saturating_sub(MOST_BITS);
        Some(Self {
            start: self.start_of(bucket),
            end: self.end_of(bucket),
            shift,
            by_order: self.by_order,
            current: 0,
            buckets: alloc::vec![List::EMPTY; 1 << (self.shift - shift)],
        })
    }

    fn is_used_up(&self) -> bool {
        self.current == self.buckets.len()
    }

    fn is_last(&self, bucket: usize) -> bool {
        bucket + 1 == self.buckets.len()
    }

    fn length(&self) -> u64 {
        if self.by_order {
            return 0;
        }
        self.end.due - self.start
    }

    /// Returns the start of a bucket: a time or an order number.
    fn start_of(&self, bucket: usize) -> u64 {
        self.start + ((bucket as u64) << self.shift)
    }

    fn end_of(&self, bucket: usize) -> Key {
        if self.by_order && self.is_last(bucket) {
            return self.end;
        }
        let length = (1 << self.shift) - 1;
        let last = self.start_of(bucket).saturating_add(length);
        if self.by_order {
            return Key::behind(self.end.due, last);
        }
        self.end.min(Key::at(last.saturating_add(1)))
    }

    /// Returns the bucket of a key. The current bucket also takes earlier keys: it begins where the
    /// next rung ends.
    #[inline]
    fn index(&self, key: Key) -> usize {
        if self.by_order {
            let index = key.order().saturating_sub(self.start) >> self.shift;
            return small(index.min(self.buckets.len() as u64 - 1)).max(self.current);
        }
        small(key.due.saturating_sub(self.start) >> self.shift).max(self.current)
    }

    #[inline]
    fn bucket(&mut self, key: Key) -> &mut List {
        let index = self.index(key);
        debug_assert!(if self.by_order {
            key.due == self.end.due
        } else {
            key.due >= self.start
        });
        &mut self.buckets[index]
    }

    /// Removes the first non-empty list. Also returns the start of its bucket if empty buckets were
    /// skipped.
    fn next(&mut self) -> Option<(List, Option<Key>)> {
        let rest = &self.buckets[self.current..];
        let passed = rest.iter().position(|list| !list.is_empty())?;
        self.current += passed;
        let list = mem::replace(&mut self.buckets[self.current], List::EMPTY);
        let start = self.start_of(self.current);
        let start = if self.by_order {
            Key::behind(self.end.due, start.saturating_sub(1))
        } else {
            Key::at(start)
        };
        Some((list, (passed > 0).then_some(start)))
    }

    /// Distributes the keys of a list over the buckets. Returns their span.
    fn spread<T>(&mut self, mut list: List, chunks: &mut Chunks, slots: &mut Slots<T>) -> Span {
        let mut span = Span::NONE;
        while let Some(chunk) = chunks.pop(&mut list) {
            for (slot, place) in chunk.slots() {
                steps::count_one();
                match slots.lift(slot, place) {
                    Some((key, place)) => {
                        span.include(key.due);
                        *place = chunks.push(self.bucket(key), key.slot());
                    }
                    None => chunks.forget_one(),
                }
            }
        }
        span
    }
}

impl Sweep {
    const START: Self = Self {
        rung: 0,
        bucket: 0,
        chunks: 0,
    };

    fn next_rung(&mut self) {
        *self = Self {
            rung: self.rung + 1,
            ..Self::START
        };
    }

    fn next_bucket(&mut self) {
        self.bucket += 1;
        self.chunks = 0;
    }
}

impl Rest {
    const EMPTY: Self = Self {
        list: List::EMPTY,
        span: Span::NONE,
    };
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

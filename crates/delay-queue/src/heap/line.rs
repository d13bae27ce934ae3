//! All keys in their order, each in one of four lists, by how soon its order matters.
//!
//! - The *lane* holds keys that came in order, one behind the other.
//! - The others that are due later than the *edge* lie unsorted in the *far* part.
//! - When the near ones are used up, the next few are pulled out of it, sorted, and are the *run*.
//! - What comes too late for that is in a small *heap*.
//! - Keys that were asked for, because somebody counts what is due, are *gathered*: taken from the
//!   front of all those into a heap of their own, whose length is the count. Each key moves once.
//!
//! # Invariants
//! 1. The first key of all is the first of the gathered ones; or, if there are none, of the lane,
//!    of the run, or of the heap.
//! 2. Keys in the far part are due at the edge or later, keys in the heap before it. Keys before
//!    the `gathered_end` are gathered, and no others are.
//! 3. The slot of each key says where the key lies. What lies where its slot does not say so is
//!    stale: left over from an entry that has gone, or from before its due time was reset. It is
//!    skipped. The heap holds nothing stale, and the first of the lane and of the run is not.

use alloc::vec::Vec;
use core::mem;

use super::chunks::{Chunks, Left};
use super::far::Far;
use super::key::{First, Key};
use super::lane::Lane;
use super::near::Near;
use super::place::{Place, Where};
use super::slots::Slots;
use super::steps;

/// From what size on things are cut, so that a step stays short: smaller ones for tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// No list of the far part gets longer, but by a chunk.
    pub(super) leaf: usize,
    /// Nor one of the lane.
    pub(super) segment: usize,
    /// So few keys are sorted at once.
    pub(super) few: usize,
}

impl Sizes {
    pub(super) const USUAL: Self = Self {
        leaf: 1 << 13,
        segment: 1 << 11,
        few: 64,
    };
}

#[derive(Debug)]
pub(super) struct Line {
    lane: Lane,
    /// The first key is at the end.
    run: Vec<Key>,
    heap: Near<false>,
    gathered: Near<true>,
    gathered_end: Key,
    /// With more keys than this the heap is moved to the far part.
    heap_limit: usize,
    far: Far,
    /// Where the keys of `lane` and `far` lie.
    chunks: Chunks,
    /// Where keys are sorted.
    desk: Vec<Key>,
    /// The first key of all, and which list it is in.
    first: First,
    source: Source,
    sizes: Sizes,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Lane,
    Run,
    Heap,
    Gathered,
}

const HEAP_LIMIT: usize = 64;
/// A heap of more keys than this stays one.
const MOST_SPILT: usize = 4 * HEAP_LIMIT;
/// So few keys may be sorted by counting.
const COUNTABLE: usize = 24;

impl Line {
    pub(super) const fn new(sizes: Sizes) -> Self {
        Self {
            lane: Lane::new(sizes.segment),
            run: Vec::new(),
            heap: Near::new(),
            gathered: Near::new(),
            gathered_end: Key::FIRST,
            heap_limit: HEAP_LIMIT,
            far: Far::new(sizes.leaf, sizes.few),
            chunks: Chunks::new(),
            desk: Vec::new(),
            first: First::NONE,
            source: Source::Run,
            sizes,
        }
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        self.chunks.reserve(additional);
    }

    /// The first key, or the last one of all if there is none.
    #[inline]
    pub(super) fn first(&self) -> First {
        self.first
    }

    /// Adds a key and tells where it lies. Its slot must not say anything until then.
    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    pub(super) fn push<T>(&mut self, key: Key, slots: &mut Slots<T>) -> Place {
        if key < self.gathered_end {
            return self.gathered.push(key, slots);
        }
        if self.lane.takes(key) {
            if !self.lane.is_before(key) {
                self.move_last_away(slots);
            }
            return self.lane.push(key, &mut self.chunks);
        }
        self.push_beside_lane(key, slots)
    }

    /// Moves the lane's last key out of it: it is due too late for the others to stand behind it.
    #[cold]
    fn move_last_away<T>(&mut self, slots: &mut Slots<T>) {
        if let Some(last) = self.lane.leave_last(&mut self.chunks, slots) {
            slots.moved(last.slot(), Place::NOWHERE);
            let place = self.push_beside_lane(last, slots);
            slots.moved(last.slot(), place);
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    fn push_beside_lane<T>(&mut self, key: Key, slots: &mut Slots<T>) -> Place {
        if key < *self.far.edge() {
            self.heap.push(key, slots)
        } else {
            self.far.push(key, &mut self.chunks, slots)
        }
    }

    /// To be called after each push, when the slot says where the key lies.
    #[inline]
    pub(super) fn pushed<T>(&mut self, key: Key, slots: &mut Slots<T>) {
        let first = self.first;
        let is_first = key.due <= first.due && (key.due < first.due || first.slot == u32::MAX);
        if is_first || self.heap.keys().len() > self.heap_limit {
            self.tidy(slots);
        }
    }

    /// To be called after a key was taken out and another one pushed, likewise.
    pub(super) fn tidy<T>(&mut self, slots: &mut Slots<T>) {
        if self.heap.keys().len() > self.heap_limit {
            self.spill(slots);
        }
        self.refill(slots);
    }

    /// Takes the first key. There must be one.
    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    pub(super) fn pop<T>(&mut self, slots: &mut Slots<T>) -> First {
        let first = self.first;
        match self.source {
            Source::Run => self.pop_run(slots),
            Source::Lane => self.lane.pop(&mut self.chunks, slots),
            Source::Heap => self.heap.remove(0, slots),
            Source::Gathered => self.remove_gathered(0, slots),
        }
        self.refill(slots);
        first
    }

    /// Gathers keys that are due by `now`, until there are `limit` of them, and tells how many
    /// are gathered: if they are fewer than the limit, it is all that are due.
    pub(super) fn gather<T>(&mut self, now: u64, limit: usize, slots: &mut Slots<T>) -> usize {
        while self.gathered.keys().len() < limit {
            let (first, source) = self.first_ungathered(slots);
            if first.due > now {
                break;
            }
            match source {
                Source::Lane => self.lane.pop(&mut self.chunks, slots),
                Source::Heap => self.heap.remove(0, slots),
                Source::Run | Source::Gathered => self.pop_run(slots),
            }
            steps::count_one();
            let Some(key) = slots.key(first.slot) else {
                break;
            };
            self.gathered_end = key.next();
            let place = self.gathered.push(key, slots);
            slots.moved(key.slot(), place);
        }
        self.refill(slots);
        self.gathered.keys().len()
    }

    /// The least due time of those that are not gathered.
    pub(super) fn next_ungathered<T>(&mut self, slots: &mut Slots<T>) -> u64 {
        let (first, _) = self.first_ungathered(slots);
        first.due
    }

    fn remove_gathered<T>(&mut self, position: usize, slots: &mut Slots<T>) {
        self.gathered.remove(position, slots);
        if self.gathered.keys().is_empty() {
            self.gathered.keys_mut().shrink_to(HEAP_LIMIT);
        }
    }

    /// Adds a key that is not the last one there was to be pushed, and tells where it lies.
    pub(super) fn push_again<T>(&mut self, key: Key, slots: &mut Slots<T>) -> Place {
        // Elsewhere it might have to stand before others of its time. It was due when it left, so
        // it is mostly near.
        if key < self.gathered_end {
            self.gathered.push(key, slots)
        } else {
            self.heap.push(key, slots)
        }
    }

    /// Takes out the key of this slot that lies there: the slot must not say so any more soon
    /// after.
    ///
    /// Tells whether it was the first of its list: then [`refill`](Self::refill) has to follow.
    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    pub(super) fn take_out<T>(&mut self, slot: u32, place: Place, slots: &mut Slots<T>) -> bool {
        match place.get() {
            Where::Chunks(index) if !self.lane.is_front(index) => {
                let (list, is_lane) = self.chunks.owner(index);
                if !is_lane {
                    self.far.left();
                }
                if self.chunks.outdate(list) == Left::Few {
                    self.rewrite(slot, list, slots);
                }
                return false;
            }
            Where::Chunks(_) => self.lane.pop(&mut self.chunks, slots),
            Where::Run(index) if index + 1 == self.run.len() => self.pop_run(slots),
            Where::Run(_) | Where::Nowhere => return false,
            Where::Heap(index) => self.heap.remove(index, slots),
            Where::Gathered(index) => self.remove_gathered(index, slots),
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn rewrite<T>(&mut self, without: u32, list: u32, slots: &mut Slots<T>) {
        slots.moved(without, Place::NOWHERE);
        self.chunks.rewrite(list, slots);
        self.lane.rewritten(list, &self.chunks);
    }

    /// How many keys are due by `now`, up to `limit`.
    pub(super) fn count_ready<T>(&mut self, now: u64, limit: usize, slots: &mut Slots<T>) -> usize {
        let gathered = self.gathered.count_ready(now, limit);
        let limit = limit - gathered;
        loop {
            let is_ready = |key: &Key| key.due <= now;
            let run = self.run(slots).take_while(is_ready);
            let lane = self.lane.iter(&self.chunks, slots).take_while(is_ready);
            let sorted = run.chain(lane).take(limit);
            let count = sorted.inspect(|_| steps::count_one()).count();
            let count = count + self.heap.count_ready(now, limit - count);
            if count == limit || now < self.far.edge().due || self.far.is_empty() {
                return gathered + count;
            }
            self.pull(slots);
        }
    }

    /// The least due time after `now`.
    pub(super) fn next_after<T>(&mut self, now: u64, slots: &mut Slots<T>) -> Option<u64> {
        loop {
            let is_later = |key: &Key| key.due > now;
            let run = self.run(slots).find(is_later);
            let lane = self.lane.iter(&self.chunks, slots).find(is_later);
            let sorted = run.into_iter().chain(lane).map(|key| key.due);
            let heaps = self.heap.next_after(now).into_iter();
            let heaps = heaps.chain(self.gathered.next_after(now));
            let next = sorted.chain(heaps).min();
            if self.far.is_empty() || next.is_some_and(|next| next <= self.far.edge().due) {
                return next;
            }
            self.pull(slots);
        }
    }

    /// Drops all keys, and keeps the memory.
    pub(super) fn clear(&mut self) {
        let mut chunks = mem::replace(&mut self.chunks, Chunks::new());
        chunks.clear();
        *self = Self {
            chunks,
            ..Self::new(self.sizes)
        };
    }

    /// Gives back memory, but for so many keys.
    pub(super) fn shrink_to<T>(&mut self, capacity: usize, slots: &mut Slots<T>) {
        let capacity = capacity.min(self.chunks.capacity());
        // In order, all of them go with the lane.
        let mut keys = self.chunks.keys(slots);
        keys.sort_unstable();
        self.chunks = Chunks::new();
        self.chunks.reserve(capacity);
        self.lane = Lane::new(self.sizes.segment);
        self.far = Far::new(self.sizes.leaf, self.sizes.few);
        for key in keys {
            let place = if self.lane.takes(key) {
                self.lane.push(key, &mut self.chunks)
            } else {
                self.far.push(key, &mut self.chunks, slots)
            };
            slots.moved(key.slot(), place);
        }
        let mut run = Vec::new();
        for (index, key) in self.run.iter().enumerate() {
            if let Some((_, place)) = slots.lift(key.slot(), Place::run(index)) {
                *place = Place::run(run.len());
                run.push(*key);
            }
        }
        run.shrink_to_fit();
        self.run = run;
        self.heap.keys_mut().shrink_to_fit();
        self.gathered.keys_mut().shrink_to_fit();
        self.desk = Vec::new();
        self.refill(slots);
    }

    /// The keys of the run in order.
    fn run<T>(&self, slots: &Slots<T>) -> impl Iterator<Item = Key> {
        let keys = self.run.iter().enumerate().rev();
        keys.filter_map(|(index, key)| slots.key_at(key.slot(), Place::run(index)))
    }

    #[inline]
    fn pop_run<T>(&mut self, slots: &Slots<T>) {
        self.run.pop();
        while let Some(key) = self.run.last()
            && !slots.is_at(key.slot(), Place::run(self.run.len() - 1))
        {
            self.run.pop();
        }
    }

    /// Sees to it that the first key of all is at hand.
    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    pub(super) fn refill<T>(&mut self, slots: &mut Slots<T>) {
        if self.gathered.keys().is_empty() {
            (self.first, self.source) = self.first_ungathered(slots);
        } else {
            self.first = self.gathered.first().as_first();
            self.source = Source::Gathered;
        }
    }

    /// The first key of those that are not gathered, and which list it is in.
    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    fn first_ungathered<T>(&mut self, slots: &mut Slots<T>) -> (First, Source) {
        loop {
            let lane = self.lane.first();
            if self.run.is_empty() && self.heap.keys().is_empty() && lane < self.far.edge() {
                return (lane.as_first(), Source::Lane);
            }
            if let Some(run) = self.run.last()
                && run < lane
                && run < self.heap.first()
                && run < self.far.edge()
            {
                return (run.as_first(), Source::Run);
            }
            let mut first = self.run.last().unwrap_or(&Key::LAST);
            let mut source = Source::Run;
            if self.lane.first() < first {
                first = self.lane.first();
                source = Source::Lane;
            }
            if self.heap.first() < first {
                first = self.heap.first();
                source = Source::Heap;
            }
            if first < self.far.edge() || self.far.is_empty() {
                return (first.as_first(), source);
            }
            self.pull(slots);
        }
    }

    /// Sorts the next keys of the far part.
    #[cold]
    fn pull<T>(&mut self, slots: &mut Slots<T>) {
        self.far.pull(&mut self.desk, &mut self.chunks, slots);
        if self.heap.keys().is_empty() {
            self.heap_limit = HEAP_LIMIT;
        }
        if self.run.is_empty() {
            if !self.sort_by_counting() {
                self.desk.sort_unstable_by(|one, other| other.cmp(one));
                mem::swap(&mut self.desk, &mut self.run);
            }
            for (index, key) in self.run.iter().enumerate() {
                slots.moved(key.slot(), Place::run(index));
            }
            self.desk.clear();
        } else {
            for key in self.desk.drain(..) {
                let place = self.heap.push(key, slots);
                slots.moved(key.slot(), place);
            }
            // They would only be pulled back, if the next push sent them away.
            self.heap_limit = self.heap_limit.max(2 * self.heap.keys().len());
        }
        self.desk.shrink_to(HEAP_LIMIT);
    }

    /// Sorts the desk into the run by counting, for each key, those that are due later, if the keys
    /// are few and no two are due at the same time. No branch depends on the keys, which the
    /// processor would guess wrong.
    fn sort_by_counting(&mut self) -> bool {
        let count = self.desk.len();
        if count > COUNTABLE {
            return false;
        }
        self.run.resize(count, Key::LAST);
        let mut sum = 0;
        for &key in &self.desk {
            let later = self.desk.iter().filter(|other| key.due < other.due).count();
            self.run[later] = key;
            sum += later;
        }
        // With two at one place the sum would be less.
        let is_sorted = sum == count * count.saturating_sub(1) / 2;
        if !is_sorted {
            self.run.clear();
        }
        is_sorted
    }

    /// Moves the heap to the far part, but for what must not be behind keys that are there.
    #[cold]
    fn spill<T>(&mut self, slots: &mut Slots<T>) {
        let edge = *self.far.edge();
        let keys = self.heap.keys_mut();
        if keys.len() <= MOST_SPILT {
            keys.sort_unstable();
            let kept = keys.partition_point(|key| key.due < edge.due);
            self.far.take(&keys[..kept], &mut self.chunks, slots);
            keys.drain(..kept);
            // What is in order is a heap.
            for (index, key) in keys.iter().enumerate() {
                slots.moved(key.slot(), Place::heap(index));
            }
            keys.shrink_to(2 * HEAP_LIMIT);
        }
        self.heap_limit = HEAP_LIMIT.max(2 * keys.len());
    }
}

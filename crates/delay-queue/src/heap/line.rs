//! All keys in their order, each in one of four lists, by how soon its order matters.
//!
//! - The *lane* has keys that were pushed in order.
//! - Other keys from the *edge* on are unsorted in the *far* part.
//! - When the near keys are consumed, the next few are pulled out of the far part and sorted: the
//!   *run*.
//! - Keys that are pushed too late for the run are in a small *heap*.
//! - Keys that were counted as due are *gathered*: moved from the front of all these lists into a
//!   heap of their own, whose length is the count. Each key moves once.
//!
//! # Invariants
//! 1. The first key of all is the first gathered one or, if there are none, the first of the lane,
//!    of the run, or of the heap.
//! 2. Keys in the far part are at the edge or after it, keys in the heap before it. The gathered
//!    keys are exactly those before `gathered_end`.
//! 3. Each slot records the place of its key. An item of a list whose slot records another place is
//!    stale: left over from an entry that has gone, or from before a reset. It is skipped. The heap
//!    contains no stale keys, and the first of the lane and of the run is not stale.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::mem;

use super::chunks::Chunks;
use super::far::{Far, Sizes};
use super::key::Key;
use super::lane::Lane;
use super::near::Near;
use super::place::{Place, Where};
use super::slots::Slots;
use super::steps;

#[derive(Debug)]
pub(super) struct Line {
    lane: Lane,
    /// In reverse order: the first key is at the end.
    run: Vec<Key>,
    heap: Near<false>,
    gathered: Near<true>,
    gathered_end: Key,
    /// With more keys than this the heap is moved to the far part.
    heap_limit: usize,
    far: Far,
    /// Memory of the lists of `lane` and `far`.
    chunks: Chunks,
    /// Scratch space for sorting.
    desk: Vec<Key>,
    /// Due time of the first key of all, and the list that it is in. Without keys, the greatest
    /// time.
    first_due: u64,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Lane,
    Run,
    Heap,
    Gathered,
}

const HEAP_LIMIT: usize = 64;
/// Maximum number of keys that are sorted by counting.
const COUNTABLE: usize = 24;

impl Line {
    pub(super) const fn new(sizes: Sizes) -> Self {
        Self {
            lane: Lane::new(),
            run: Vec::new(),
            heap: Near::new(),
            gathered: Near::new(),
            gathered_end: Key::FIRST,
            heap_limit: HEAP_LIMIT,
            far: Far::new(sizes),
            chunks: Chunks::new(),
            desk: Vec::new(),
            first_due: u64::MAX,
            source: Source::Run,
        }
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        self.chunks.reserve(additional);
    }

    pub(super) fn try_reserve(&mut self, additional: usize) -> Result<(), TryReserveError> {
        self.chunks.try_reserve(additional)
    }

    #[cfg(all(test, feature = "std", not(anthill_loom)))]
    pub(super) fn capacity(&self) -> usize {
        self.chunks.capacity()
    }

    /// Returns the due time of the first key, or the greatest time if there is none.
    #[inline]
    pub(super) fn first_due(&self) -> u64 {
        self.first_due
    }

    /// Returns the first key, or the greatest key if there is none.
    #[inline]
    pub(super) fn first(&self) -> Key {
        self.first_of(self.source)
    }

    #[inline]
    fn first_of(&self, source: Source) -> Key {
        let first = match source {
            Source::Run => self.run.last(),
            Source::Lane => Some(self.lane.first()),
            Source::Heap => self.heap.keys().first(),
            Source::Gathered => self.gathered.keys().first(),
        };
        first.copied().unwrap_or(Key::LAST)
    }

    /// Adds a key, and returns its place. Its slot must have no place until then.
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

    /// Moves the lane's last key out of it: it is due too late for other keys to follow it.
    #[cold]
    fn move_last_away<T>(&mut self, slots: &mut Slots<T>) {
        if let Some(last) = self.lane.leave_last(&mut self.chunks, slots) {
            let place = self.push_beside_lane(last, slots);
            slots.moved(last.slot(), place);
            if self.chunks.should_be_swept() {
                self.sweep_some(slots);
            }
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    fn push_beside_lane<T>(&mut self, key: Key, slots: &mut Slots<T>) -> Place {
        if key >= self.far.edge() {
            self.far.push(key, &mut self.chunks, slots)
        } else {
            self.heap.push(key, slots)
        }
    }

    /// Must be called after each push of a key with this due time and the highest order number,
    /// when the slot records the key's place.
    #[inline]
    pub(super) fn pushed<T>(&mut self, due: u64, slots: &mut Slots<T>) {
        let may_be_first = due < self.first_due || due == u64::MAX;
        if may_be_first || self.heap.keys().len() > self.heap_limit {
            self.tidy(slots);
        }
    }

    /// Must be called after a key was removed and another one pushed, likewise.
    pub(super) fn tidy<T>(&mut self, slots: &mut Slots<T>) {
        if self.heap.keys().len() > self.heap_limit {
            self.spill(slots);
        }
        self.refill(slots);
    }

    /// Removes the first key. There must be one.
    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    pub(super) fn pop<T>(&mut self, slots: &mut Slots<T>) -> Key {
        let first = self.first();
        match self.source {
            Source::Run => self.pop_run(slots),
            Source::Lane => self.lane.pop(&mut self.chunks, slots),
            Source::Heap => self.heap.remove(0, slots),
            Source::Gathered => self.remove_gathered(0, slots),
        }
        self.refill(slots);
        first
    }

    /// Gathers keys that are due by `now`, until there are `limit` of them. Returns the number of
    /// gathered keys: if less than the limit, they are all that are due.
    #[cfg(feature = "std")]
    pub(super) fn gather<T>(&mut self, now: u64, limit: usize, slots: &mut Slots<T>) -> usize {
        while self.gathered.keys().len() < limit {
            let (due, source) = self.first_ungathered(slots);
            if due > now {
                break;
            }
            let first = self.first_of(source);
            match source {
                Source::Lane => self.lane.pop(&mut self.chunks, slots),
                Source::Heap => self.heap.remove(0, slots),
                Source::Run | Source::Gathered => self.pop_run(slots),
            }
            steps::count_one();
            self.gathered_end = first.next();
            let place = self.gathered.push(first, slots);
            slots.moved(first.slot(), place);
        }
        self.refill(slots);
        self.gathered.keys().len()
    }

    /// Returns the least due time of the keys that are not gathered.
    #[cfg(feature = "std")]
    pub(super) fn next_ungathered<T>(&mut self, slots: &mut Slots<T>) -> u64 {
        self.first_ungathered(slots).0
    }

    fn remove_gathered<T>(&mut self, position: usize, slots: &mut Slots<T>) {
        self.gathered.remove(position, slots);
        if self.gathered.keys().is_empty() {
            self.gathered.keys_mut().shrink_to(HEAP_LIMIT);
        }
    }

    /// Removes the key at `place`. The caller must then remove the place from its slot.
    ///
    /// Returns whether the key was the first of its list: then the caller must call
    /// [`refill`](Self::refill).
    #[inline]
    pub(super) fn take_out<T>(&mut self, place: Place, slots: &mut Slots<T>) -> bool {
        match place.get() {
            Where::Chunks(index) if !self.lane.is_front(index) => {
                self.chunks.outdate_one();
                if self.chunks.should_be_swept() {
                    // If this moves the removed key, the key is stale in its new place.
                    self.sweep_some(slots);
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

    /// Returns the number of keys that are due by `now`, up to `limit`.
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

    /// Returns the least due time after `now`.
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

    pub(super) fn clear(&mut self) {
        let mut chunks = mem::replace(&mut self.chunks, Chunks::new());
        chunks.clear();
        *self = Self {
            chunks,
            ..Self::new(self.far.sizes())
        };
    }

    pub(super) fn shrink_to<T>(&mut self, capacity: usize, slots: &mut Slots<T>) {
        self.far.forget_rungs();
        self.sweep(capacity.min(self.chunks.capacity()), slots);
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
    }

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

    /// Updates the first key of all, and pulls keys from the far part if necessary.
    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    pub(super) fn refill<T>(&mut self, slots: &mut Slots<T>) {
        (self.first_due, self.source) = match self.gathered.keys().first() {
            Some(first) => (first.due, Source::Gathered),
            None => self.first_ungathered(slots),
        };
    }

    /// Returns the due time of the first key that is not gathered, and its list.
    #[expect(
        clippy::inline_always,
        reason = "measured: calls cost a tenth of a push and pop"
    )]
    #[inline(always)]
    fn first_ungathered<T>(&mut self, slots: &mut Slots<T>) -> (u64, Source) {
        loop {
            let mut first = self.run.last().unwrap_or(&Key::LAST);
            let mut source = Source::Run;
            if self.lane.first() < first {
                first = self.lane.first();
                source = Source::Lane;
            }
            if let Some(near) = self.heap.keys().first()
                && near < first
            {
                first = near;
                source = Source::Heap;
            }
            // The due time alone usually decides.
            let edge = self.far.edge();
            if first.due < edge.due || *first < edge || self.far.is_empty() {
                return (first.due, source);
            }
            self.pull(slots);
        }
    }

    #[cold]
    fn pull<T>(&mut self, slots: &mut Slots<T>) {
        self.far.pull(&mut self.desk, &mut self.chunks, slots);
        if self.heap.keys().is_empty() {
            self.heap_limit = HEAP_LIMIT;
        }
        if self.run.is_empty() {
            self.sort();
            for (index, key) in self.run.iter().enumerate() {
                slots.moved(key.slot(), Place::run(index));
            }
            self.desk.clear();
        } else {
            for key in self.desk.drain(..) {
                let place = self.heap.push(key, slots);
                slots.moved(key.slot(), place);
            }
            // If the next push spilled the heap, its keys would only be pulled back.
            self.heap_limit = self.heap_limit.max(2 * self.heap.keys().len());
        }
        self.desk.shrink_to(HEAP_LIMIT);
    }

    /// Sorts `desk` into the run, which is empty. Not generic, because a sort is much code.
    fn sort(&mut self) {
        if !self.sort_by_counting() {
            self.desk.sort_unstable_by(|one, other| other.cmp(one));
            mem::swap(&mut self.desk, &mut self.run);
        }
    }

    /// Sorts `desk` into the run if the keys are few and no two have the same due time: counts, for
    /// each key, the keys that are due later. No branch depends on the keys, so the processor
    /// mispredicts none.
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
        // If two keys had the same position, the sum would be less.
        let is_sorted = sum == count * count.saturating_sub(1) / 2;
        if !is_sorted {
            self.run.clear();
        }
        is_sorted
    }

    /// Moves the heap to the far part, unless that is useless.
    #[cold]
    fn spill<T>(&mut self, slots: &mut Slots<T>) {
        let keys = self.heap.keys_mut();
        if self.far.take(keys, &mut self.chunks, slots) {
            keys.clear();
            keys.shrink_to(2 * HEAP_LIMIT);
            self.heap_limit = HEAP_LIMIT;
        } else {
            self.heap_limit = 2 * keys.len();
        }
    }

    /// Removes the stale keys of one chunk, list after list.
    #[inline(never)]
    fn sweep_some<T>(&mut self, slots: &mut Slots<T>) {
        let chunks = &mut self.chunks;
        if !self.lane.sweep_some(chunks, slots) && !self.far.sweep_some(chunks, slots) {
            self.lane.begin_sweep(chunks, slots);
        }
    }

    /// Rebuilds the lists of the lane and of the far part without stale keys.
    #[cold]
    fn sweep<T>(&mut self, capacity: usize, slots: &mut Slots<T>) {
        let lane = self.lane.leave(&self.chunks, slots);
        self.far.forget_all();
        self.chunks = Chunks::with_capacity(capacity);
        // In the order of the slots, for sequential memory access.
        for (key, place) in slots.iter_mut() {
            steps::count_one();
            if matches!(place.get(), Where::Chunks(_)) {
                *place = self.far.put(key, &mut self.chunks);
            }
        }
        self.lane.enter(&lane, &mut self.chunks, slots);
    }
}

//! Keys that need not be in order yet: a ladder.
//!
//! A rung is a stretch of time cut into equal buckets, each an unsorted list. Its buckets are used
//! up one after another; one with many keys becomes a rung of its own, with finer buckets, and that
//! is used up before it. Behind the first rung's end lies the rest.
//!
//! No step moves more than a bounded number of keys: a bucket that is pushed full is cut into finer
//! ones at once, long before its time comes. Keys that are all due at one time cannot be told apart
//! so; they came in their order, and stay in it.
//!
//! # Invariants
//! 1. All keys here are at the `edge` or behind it, and so are all that are pushed.
//! 2. A rung ends where the current bucket of the rung before it ends, or sooner. Therefore the
//!    current buckets, from the last rung to the first, and the rest behind them, cover the time
//!    from `edge` on without a gap. The first bucket that is in use of a rung takes what is before
//!    it, the last one what is behind it up to the rung's end.
//! 3. Keys of one time lie in the order of their order numbers, wherever they lie.
//! 4. A list has no more than `leaf` live keys, and twice as many in all (and a chunk), or it is a queue of such lists, of keys
//!    that are all due at one time.

use alloc::vec::Vec;

use super::chunks::{Chunks, LISTS};
use super::fifo::Fifo;
use super::key::Key;
use super::place::Place;
use super::slots::Slots;
use super::steps;

/// How many keys a bucket should get when a list is cut whose time has come.
const SHARE: usize = 8;
const FEWEST_BUCKETS: usize = 128;
const MOST_BUCKETS: usize = LISTS;
/// With as many rungs, another one is made twice as long as its keys need.
const MANY_RUNGS: usize = 8;

#[derive(Debug)]
pub(super) struct Far {
    /// Each is in the current bucket of the one before it, or earlier.
    rungs: Vec<Rung>,
    /// What has become of buckets that were full, and which of these are unused.
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    /// The list of keys that are due when the first rung has ended, and that of keys that never
    /// are; none before the first push.
    rest: Option<u32>,
    /// When the first and the last of the rest are due.
    rest_span: Span,
    edge: Key,
    live: usize,
    /// A longer list is cut.
    leaf: usize,
    /// A list of no more keys than this is sorted at once.
    few: usize,
    /// Where keys lie while they are moved.
    desk: Vec<Key>,
}

#[derive(Debug)]
enum Node {
    Rung(Rung),
    /// Keys of one time.
    Queue(Fifo),
    Unused,
}

#[derive(Clone, Copy, Debug)]
struct Rung {
    start: u64,
    end: u64,
    /// A bucket is 2^shift long.
    shift: u32,
    /// The first bucket that is not used up.
    current: usize,
    count: usize,
    /// The list of its first bucket.
    lists: u32,
}

/// From one time to another, both included.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    last: u64,
}

impl Far {
    pub(super) const fn new(leaf: usize, few: usize) -> Self {
        Self {
            rungs: Vec::new(),
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            rest: None,
            rest_span: Span::NONE,
            edge: Key::at(u64::MAX),
            live: 0,
            leaf,
            few,
            desk: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn edge(&self) -> &Key {
        &self.edge
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Adds a key that is not before the edge, and tells where it lies.
    #[expect(clippy::inline_always, reason = "measured: see `line.rs`")]
    #[inline(always)]
    pub(super) fn push<T>(&mut self, key: Key, chunks: &mut Chunks, slots: &mut Slots<T>) -> Place {
        if let Some(list) = self.list(key.due)
            && let Some(place) = chunks.push_beside(list, key.slot())
        {
            self.live += 1;
            return place;
        }
        self.push_to_next(key, chunks, slots)
    }

    /// The list for keys that are due then, if it is not found elsewhere.
    #[inline]
    fn list(&mut self, due: u64) -> Option<u32> {
        let rungs = self.rungs.iter().rev();
        match rungs.into_iter().find(|rung| due < rung.end) {
            Some(rung) => Some(rung.list(due)),
            None if due == u64::MAX => Some(self.rest? + 1),
            None => {
                self.rest_span.include(due);
                self.rest
            }
        }
    }

    /// As `push`, if another chunk is needed, or the list is found elsewhere.
    #[inline(never)]
    fn push_to_next<T>(&mut self, key: Key, chunks: &mut Chunks, slots: &mut Slots<T>) -> Place {
        let mut list = self.find(key.due, chunks);
        if chunks.is_chunk_full(list) {
            list = self.make_room(list, key.due, chunks, slots);
        }
        self.live += 1;
        chunks.push(list, key.slot())
    }

    /// As `push`, for keys that are moved: nothing is cut, and the caller counts them.
    #[inline]
    fn put(&mut self, key: Key, chunks: &mut Chunks) -> Place {
        steps::count_one();
        if let Some(list) = self.list(key.due)
            && let Some(place) = chunks.push_beside(list, key.slot())
        {
            return place;
        }
        self.put_to_next(key, chunks)
    }

    #[inline(never)]
    fn put_to_next(&mut self, key: Key, chunks: &mut Chunks) -> Place {
        let leaf = self.leaf;
        let list = self.find(key.due, chunks);
        let list = match self.queue(list, chunks) {
            Some(queue) => queue.back(leaf, false, chunks),
            None => list,
        };
        chunks.push(list, key.slot())
    }

    /// One on this list has gone.
    #[inline]
    pub(super) fn left(&mut self) {
        self.live -= 1;
    }

    /// The list for keys that are due then, or the queue.
    #[inline]
    fn find(&mut self, due: u64, chunks: &mut Chunks) -> u32 {
        let rung = self.rungs.iter().rev().find(|rung| due < rung.end);
        let mut list = match rung {
            Some(rung) => rung.list(due),
            None => return self.find_rest(due, chunks),
        };
        while let Some(node) = chunks.elsewhere(list)
            && let Some(Node::Rung(rung)) = self.nodes.get(node as usize)
        {
            list = rung.list(due);
        }
        list
    }

    #[inline]
    fn find_rest(&mut self, due: u64, chunks: &mut Chunks) -> u32 {
        let rest = *self.rest.get_or_insert_with(|| chunks.add_lists(false));
        if due == u64::MAX {
            return rest + 1;
        }
        self.rest_span.include(due);
        rest
    }

    fn queue(&mut self, list: u32, chunks: &Chunks) -> Option<&mut Fifo> {
        let node = chunks.elsewhere(list)?;
        match self.nodes.get_mut(node as usize) {
            Some(Node::Queue(queue)) => Some(queue),
            _ => None,
        }
    }

    /// The list for a key that is due then, when the one that was found has no chunk with room: it
    /// may be a queue, or have to be cut.
    #[cold]
    fn make_room<T>(
        &mut self,
        mut list: u32,
        due: u64,
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) -> u32 {
        loop {
            let leaf = self.leaf;
            if let Some(queue) = self.queue(list, chunks) {
                return queue.back(leaf, false, chunks);
            }
            // What is stale does not make a list long, or half of it at most.
            let len = chunks.len(list);
            if len < leaf || len < 2 * leaf && chunks.live(list) < leaf {
                return list;
            }
            if Some(list) == self.rest {
                self.cut_rest(list, chunks, slots);
            } else {
                self.cut_bucket(list, due, chunks, slots);
            }
            list = self.find(due, chunks);
            // Its keys can all have gone to one bucket again, which is cut with its next chunk.
            if self.queue(list, chunks).is_none() {
                return list;
            }
        }
    }

    /// Makes the rest the first rung, which goes on for as long as all keys lie apart: what is
    /// pushed as time goes on mostly finds its bucket there.
    fn cut_rest<T>(&mut self, list: u32, chunks: &mut Chunks, slots: &mut Slots<T>) {
        let span = self.rest_span;
        let all = span.last - self.edge.due.min(span.first);
        let covered = Span {
            first: span.first,
            last: span.last.saturating_add(all).max(span.first + 1),
        };
        let rung = Rung::new(covered, MOST_BUCKETS, u64::MAX, chunks);
        self.gather(list, chunks, slots);
        self.rest_span = Span::NONE;
        self.rungs.insert(0, rung);
        self.put_desk(chunks, slots);
    }

    /// Makes a bucket a rung of its own, or a queue.
    fn cut_bucket<T>(&mut self, list: u32, due: u64, chunks: &mut Chunks, slots: &mut Slots<T>) {
        let bounds = self.bounds(due, chunks);
        if bounds.first == bounds.last {
            let queue = Fifo::of_list(list, chunks);
            let node = self.add_node(Node::Queue(queue));
            chunks.put_elsewhere(list, node);
            return;
        }
        let span = self.gather(list, chunks, slots);
        // More than the keys need, since others will come beside them; but times that are all alike
        // get a bucket of their own.
        let pad = 4 * u128::from(span.last - span.first) + 16;
        let pad = u64::try_from(pad).unwrap_or(u64::MAX);
        let covered = Span {
            first: bounds.first.max(span.first.saturating_sub(pad)),
            last: bounds.last.min(span.last.saturating_add(pad)),
        };
        let end = bounds.last.saturating_add(1);
        let mut rung = Rung::new(covered, MOST_BUCKETS / 4, end, chunks);
        rung.end = end;
        let node = self.add_node(Node::Rung(rung));
        chunks.put_elsewhere(list, node);
        self.put_desk(chunks, slots);
    }

    /// When keys can be due that are pushed to the same bucket as those that are due then.
    fn bounds(&self, due: u64, chunks: &Chunks) -> Span {
        let mut bounds = Span {
            first: self.edge.due,
            last: u64::MAX - 1,
        };
        let Some(mut rung) = self.rungs.iter().rev().find(|rung| due < rung.end) else {
            return Span {
                first: due,
                last: due,
            };
        };
        loop {
            bounds = rung.bounds(rung.bucket(due), bounds);
            let node = chunks.elsewhere(rung.list(due));
            match node.and_then(|node| self.nodes.get(node as usize)) {
                Some(Node::Rung(finer)) => rung = finer,
                _ => return bounds,
            }
        }
    }

    fn add_node(&mut self, node: Node) -> u32 {
        if let Some(free) = self.free_nodes.pop() {
            self.nodes[free as usize] = node;
            return free;
        }
        self.nodes.push(node);
        super::chunks::small(self.nodes.len() - 1)
    }

    /// Makes a rung of keys that are due before the edge, in order, or puts them where they would
    /// have been had they come in time.
    pub(super) fn take<T>(&mut self, keys: &[Key], chunks: &mut Chunks, slots: &mut Slots<T>) {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return;
        };
        if self.is_empty() {
            self.reset(chunks);
        }
        while let Some(rung) = self.rungs.last()
            && rung.is_used_up()
        {
            chunks.drop_lists(rung.lists);
            self.rungs.pop();
        }
        match self.rungs.last_mut() {
            Some(rung) if rung.start <= first.due => rung.current = rung.bucket_of(first.due),
            _ => {
                let mut span = Span {
                    first: first.due,
                    last: last.due,
                };
                if self.rungs.len() >= MANY_RUNGS {
                    let all = self.edge.due - first.due;
                    span.first = span.first.saturating_sub(all);
                }
                let mut rung = Rung::new(span, FEWEST_BUCKETS, self.edge.due, chunks);
                rung.current = rung.bucket_of(first.due);
                self.rungs.push(rung);
            }
        }
        self.edge = Key::at(first.due);
        self.live += keys.len();
        for &key in keys {
            slots.moved(key.slot(), self.put(key, chunks));
        }
    }

    /// Moves the keys that are first out of here, with all others before the new edge.
    pub(super) fn pull<T>(
        &mut self,
        into: &mut Vec<Key>,
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) {
        // What is cut may have to be cut again: but not for ever.
        let mut moves = 2 * self.leaf;
        while into.is_empty() && !self.is_empty() {
            let Some(rung) = self.rungs.last_mut() else {
                self.pull_rest(into, &mut moves, chunks, slots);
                continue;
            };
            let Some(bucket) = rung.next(chunks) else {
                self.edge = self.edge.max(Key::at(rung.end));
                chunks.drop_lists(rung.lists);
                self.rungs.pop();
                continue;
            };
            let start = rung.start + ((bucket as u64) << rung.shift);
            if bucket > 0 {
                self.edge = self.edge.max(Key::at(start));
            }
            let bounds = Span {
                first: self.edge.due,
                last: rung.end - 1,
            };
            let bounds = rung.bounds(bucket, bounds);
            let list = rung.lists + super::chunks::small(bucket);
            let Some(node) = chunks.elsewhere(list) else {
                self.pull_list(list, bounds, into, &mut moves, chunks, slots);
                continue;
            };
            match self.nodes.get_mut(node as usize) {
                Some(Node::Queue(_)) => self.pull_queue(node, list, into, chunks, slots),
                Some(Node::Rung(finer)) => {
                    self.rungs.push(*finer);
                    self.free_node(node, list, chunks);
                }
                _ => chunks.forget(list),
            }
        }
        if self.is_empty() && self.edge.due < u64::MAX {
            self.reset(chunks);
        }
    }

    /// Moves a list out of here, or makes it a rung if it is not short.
    fn pull_list<T>(
        &mut self,
        list: u32,
        bounds: Span,
        into: &mut Vec<Key>,
        moves: &mut usize,
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) {
        let is_rest = Some(list) == self.rest;
        let end = if is_rest { u64::MAX } else { bounds.last + 1 };
        let count = chunks.len(list);
        if count > self.few && bounds.first < bounds.last && count <= *moves {
            *moves -= count;
            let count = (count / SHARE).next_power_of_two();
            let count = count.clamp(FEWEST_BUCKETS, MOST_BUCKETS);
            let rung = Rung::new(bounds, count, end, chunks);
            self.edge = self.edge.max(Key::at(bounds.first));
            self.rungs.push(rung);
            return self.spread(list, chunks, slots);
        }
        self.live -= chunks.take_all(list, into, slots);
        if let Some(rung) = self.rungs.last_mut() {
            rung.current += 1;
        }
        self.edge = Key::at(end);
    }

    /// Moves the keys of a list to the last rung.
    fn spread<T>(&mut self, list: u32, chunks: &mut Chunks, slots: &mut Slots<T>) {
        let live = chunks.live(list);
        while let Some(chunk) = chunks.pop(list) {
            for (slot, place) in chunk.slots() {
                if let Some((key, place)) = slots.lift(slot, place) {
                    *place = self.put(key, chunks);
                } else {
                    steps::count_one();
                }
            }
        }
        chunks.forget_live(list, live);
    }

    #[cold]
    fn pull_rest<T>(
        &mut self,
        into: &mut Vec<Key>,
        moves: &mut usize,
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) {
        let Some(rest) = self.rest else {
            return;
        };
        if !chunks.is_empty(rest) {
            let bounds = core::mem::replace(&mut self.rest_span, Span::NONE);
            return self.pull_list(rest, bounds, into, moves, chunks, slots);
        }
        let list = rest + 1;
        debug_assert!(!chunks.is_empty(list), "{} are nowhere", self.live);
        if self.queue(list, chunks).is_none() {
            let queue = Fifo::of_list(list, chunks);
            let node = self.add_node(Node::Queue(queue));
            chunks.put_elsewhere(list, node);
        }
        if let Some(node) = chunks.elsewhere(list) {
            self.pull_queue(node, list, into, chunks, slots);
        }
    }

    /// Moves the first few keys out of a queue.
    fn pull_queue<T>(
        &mut self,
        node: u32,
        list: u32,
        into: &mut Vec<Key>,
        chunks: &mut Chunks,
        slots: &mut Slots<T>,
    ) {
        let Some(Node::Queue(queue)) = self.nodes.get_mut(node as usize) else {
            return;
        };
        let Some(front) = queue.front(chunks) else {
            self.free_node(node, list, chunks);
            return;
        };
        while into.len() < self.few
            && let Some(chunk) = chunks.pop(front)
        {
            let before = into.len();
            let keys = chunk.slots();
            into.extend(keys.filter_map(|(slot, place)| slots.key_at(slot, place)));
            chunks.forget_live(front, into.len() - before);
        }
        self.live -= into.len();
        if let Some(last) = into.last() {
            self.edge = last.next();
        }
    }

    fn free_node(&mut self, node: u32, list: u32, chunks: &mut Chunks) {
        chunks.forget(list);
        self.nodes[node as usize] = Node::Unused;
        self.free_nodes.push(node);
    }

    /// Moves the keys of a list to the desk, and tells what they span.
    fn gather<T>(&mut self, list: u32, chunks: &mut Chunks, slots: &Slots<T>) -> Span {
        let mut span = Span::NONE;
        let live = chunks.live(list);
        while let Some(chunk) = chunks.pop(list) {
            for (slot, place) in chunk.slots() {
                steps::count_one();
                if let Some(key) = slots.key_at(slot, place) {
                    span.include(key.due);
                    self.desk.push(key);
                }
            }
        }
        debug_assert_eq!(live, self.desk.len());
        chunks.forget_live(list, live);
        self.live -= live;
        span
    }

    fn put_desk<T>(&mut self, chunks: &mut Chunks, slots: &mut Slots<T>) {
        let desk = core::mem::take(&mut self.desk);
        self.live += desk.len();
        for &key in &desk {
            slots.moved(key.slot(), self.put(key, chunks));
        }
        self.desk = desk;
        self.desk.clear();
        self.desk.shrink_to(2 * self.few);
    }

    /// Forgets rungs that are all empty.
    #[cold]
    fn reset(&mut self, chunks: &mut Chunks) {
        debug_assert!(self.is_empty());
        while let Some(rung) = self.rungs.pop() {
            self.forget(rung, chunks);
        }
        if let Some(rest) = self.rest {
            self.forget_list(rest + 1, chunks);
        }
        self.rest_span = Span::NONE;
        self.edge = Key::at(u64::MAX);
    }

    fn forget(&mut self, rung: Rung, chunks: &mut Chunks) {
        for bucket in rung.current..rung.count {
            self.forget_list(rung.lists + super::chunks::small(bucket), chunks);
        }
        chunks.drop_lists(rung.lists);
    }

    fn forget_list(&mut self, list: u32, chunks: &mut Chunks) {
        let Some(node) = chunks.elsewhere(list) else {
            return;
        };
        let old = core::mem::replace(&mut self.nodes[node as usize], Node::Unused);
        self.free_node(node, list, chunks);
        match old {
            Node::Rung(rung) => self.forget(rung, chunks),
            Node::Queue(mut queue) => {
                queue.front(chunks);
            }
            Node::Unused => {}
        }
    }
}

/// The number of a bucket, of which there are few.
#[expect(clippy::cast_possible_truncation, reason = "there are few")]
fn small(bucket: u64) -> usize {
    bucket as usize
}

impl Rung {
    /// Of as many buckets at most, which ends at `end` at the latest.
    fn new(span: Span, most: usize, end: u64, chunks: &mut Chunks) -> Self {
        let length = span.last - span.first;
        let shift = (u64::BITS - length.leading_zeros()).saturating_sub(most.ilog2());
        let count = small(length >> shift) + 1;
        let covered = u128::from(span.first) + ((count as u128) << shift);
        Self {
            start: span.first,
            end: u64::try_from(covered).map_or(end, |covered| covered.min(end)),
            shift,
            current: 0,
            count,
            lists: chunks.add_lists(false),
        }
    }

    fn is_used_up(&self) -> bool {
        self.current == self.count
    }

    #[inline]
    fn bucket_of(&self, due: u64) -> usize {
        small(due.saturating_sub(self.start) >> self.shift).min(self.count - 1)
    }

    /// The bucket for keys that are due then.
    #[inline]
    fn bucket(&self, due: u64) -> usize {
        self.bucket_of(due).max(self.current)
    }

    #[inline]
    fn list(&self, due: u64) -> u32 {
        self.lists + super::chunks::small(self.bucket(due))
    }

    /// When keys in this bucket can be due, if those in the rung are due within `all`.
    fn bounds(&self, bucket: usize, all: Span) -> Span {
        let start = self.start + ((bucket as u64) << self.shift);
        let length = (1 << self.shift) - 1;
        let first = if bucket <= self.current { 0 } else { start };
        let last = if bucket + 1 == self.count {
            self.end - 1
        } else {
            start.saturating_add(length).min(self.end - 1)
        };
        Span {
            first: first.max(all.first),
            last: last.min(all.last),
        }
    }

    /// The first bucket that is not empty.
    fn next(&mut self, chunks: &Chunks) -> Option<usize> {
        let first = self.lists + super::chunks::small(self.current);
        let passed = chunks.first_used(first, self.count - self.current)?;
        self.current += passed;
        Some(self.current)
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

//! A first-in, first-out queue that grows in blocks.
//!
//! Growth never copies the entries, because a million of them would be moved under the pool's lock. A busy pool
//! uses two queues that are swapped: entries leave one and enter the other. A drained queue keeps as many empty
//! blocks as the last batch used, so a steady load does not allocate. When a worker goes idle more than twice
//! [`SPARE`] empty blocks are reduced to [`SPARE`].

use std::collections::VecDeque;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

/// Number of entries in a block.
const BLOCK: usize = 256;
/// Number of emptied blocks that are always kept for reuse.
const SPARE: usize = 4;

/// One block of the queue.
pub(crate) type Block<J> = VecDeque<Entry<J>>;

/// A slot of a block.
///
/// # Invariant
/// It holds a `J`, except between a [`TaskQueue::place`] and the write that its caller has to make.
#[derive(Debug)]
#[repr(align(64))] // So that a job that is written on one core and read on another is one cache line.
// Uninitialized at first, so that a submit can write its job into the slot instead of moving it there.
pub(crate) struct Entry<J>(MaybeUninit<J>);

impl<J> Entry<J> {
    #[inline]
    fn new(job: J) -> Self {
        Self(MaybeUninit::new(job))
    }

    #[inline]
    fn get(&self) -> &J {
        // SAFETY: the invariant.
        unsafe { self.0.assume_init_ref() }
    }

    #[inline]
    fn into_inner(self) -> J {
        let entry = ManuallyDrop::new(self);
        // SAFETY: the invariant. `ManuallyDrop` prevents a second drop of the value.
        unsafe { entry.0.assume_init_read() }
    }
}

impl<J> Drop for Entry<J> {
    fn drop(&mut self) {
        // SAFETY: the invariant; the slot is never used after its drop.
        unsafe { self.0.assume_init_drop() };
    }
}

/// A batch of jobs of which a section accepts a prefix.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Chunk<'a, J>(pub(crate) &'a mut TaskQueue<J>);

#[derive(Debug)]
pub(crate) struct TaskQueue<J> {
    /// The block that entries leave.
    front: Block<J>,
    /// Non-empty blocks.
    middle: VecDeque<Block<J>>,
    /// The block that entries enter.
    back: Block<J>,
    spare: Vec<Block<J>>,
    /// How many emptied blocks are kept at the moment, at least [`SPARE`].
    keep: usize,
    /// Index of the block that the next sweep visits.
    next_sweep: usize,
    len: usize,
}

impl<J> TaskQueue<J> {
    pub(crate) fn new() -> Self {
        Self {
            front: VecDeque::new(),
            middle: VecDeque::new(),
            back: VecDeque::new(),
            spare: Vec::new(),
            keep: SPARE,
            next_sweep: 0,
            len: 0,
        }
    }

    /// Creates a queue with memory for `entries`, at most one block.
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self {
            // At most one block, because only blocks of one size can be reused.
            back: VecDeque::with_capacity(entries.min(BLOCK)),
            ..Self::new()
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: J) {
        // SAFETY: the slot is written in the next statement.
        let place = unsafe { self.place() };
        // SAFETY: the slot is of type `J` and belongs to a block that is borrowed here.
        unsafe { place.write(entry) };
    }

    /// Adds a slot at the end, for an entry that is constructed in place.
    ///
    /// # Safety
    /// The caller must write a `J` to the slot before the queue is used again or dropped.
    #[inline]
    pub(crate) unsafe fn place(&mut self) -> NonNull<J> {
        if self.back.len() == self.back.capacity() {
            self.new_block();
        }
        self.back.push_back(Entry(MaybeUninit::uninit()));
        self.len += 1;
        match self.back.back_mut() {
            Some(entry) => NonNull::from(&mut entry.0).cast(),
            None => unreachable!("an entry was just pushed"),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<J> {
        if self.front.is_empty() {
            if self.len == 0 {
                return None;
            }
            self.next_block();
        }
        // Counted before the pop, so that the job is returned as it comes out and is not moved once more.
        self.len -= 1;
        self.front.pop_front().map(Entry::into_inner)
    }

    /// Puts back the entry that was just popped. It is the next to leave again.
    #[cold]
    pub(crate) fn unpop(&mut self, entry: J) {
        // In front, so that the task keeps its place although a section has given it up.
        self.front.push_front(Entry::new(entry));
        self.len += 1;
    }

    /// Adds a block, because the back one is full or has no memory yet.
    #[cold]
    fn new_block(&mut self) {
        if !self.back.is_empty() {
            // Without memory if none is spare: it is reserved below, after the full block has left.
            let fresh = self.spare.pop().unwrap_or_default();
            let full = std::mem::replace(&mut self.back, fresh);
            self.middle.push_back(full);
        }
        // Only now, so that an idle pool's queue owns no memory.
        if self.back.capacity() == 0 {
            self.back.reserve_exact(BLOCK);
        }
    }

    /// Makes the next block the front. The front is empty, and the queue is not.
    fn next_block(&mut self) {
        // No middle block: the back is the only one with entries, and trading places saves a copy of them.
        let Some(next) = self.middle.pop_front() else {
            return std::mem::swap(&mut self.front, &mut self.back);
        };
        let emptied = std::mem::replace(&mut self.front, next);
        self.spare.push(emptied);
        // Two at a time, because freeing takes time and the lock is held.
        let rest = self.spare.len().saturating_sub(2);
        self.spare.truncate(rest.max(self.keep));
    }

    /// Moves all entries of `other` to the end, at no more than the cost of a move per entry.
    ///
    /// If this queue is empty the two are swapped, so `other` gets its spare blocks.
    pub(crate) fn append(&mut self, other: &mut Self) {
        if self.len == 0 {
            std::mem::swap(self, other);
            let came = self.middle.len() + 1;
            // Decays by an eighth per batch, so that one small batch in between does not free a large one's blocks.
            self.keep = came.max(other.keep - other.keep / 8).max(SPARE);
        } else {
            self.append_chunk(other);
        }
    }

    /// Like [`append`](Self::append), for a queue that its owner drops afterwards. It gets none of this queue's
    /// memory.
    pub(crate) fn append_chunk(&mut self, other: &mut Self) {
        if other.len <= BLOCK / 4 {
            // Copied, because a block per small batch would leave the queue with many nearly empty blocks.
            self.copy(&mut other.front);
            other.middle.iter_mut().for_each(|block| self.copy(block));
            other.middle.clear();
            self.copy(&mut other.back);
            other.len = 0;
        } else {
            // Blocks change hands whole: a large batch must not be copied under the lock.
            let fresh = self.spare.pop().unwrap_or_default();
            // The back is closed even if it is half full, because order must be kept across the two queues.
            let back = std::mem::replace(&mut self.back, fresh);
            let front = std::mem::take(&mut other.front);
            let blocks = [back, front].into_iter().chain(other.middle.drain(..));
            self.middle.extend(blocks.filter(|block| !block.is_empty()));
            std::mem::swap(&mut self.back, &mut other.back);
            self.len += std::mem::take(&mut other.len);
        }
    }

    /// Copies the entries of a block to the end.
    fn copy(&mut self, block: &mut Block<J>) {
        if block.len() <= self.back.capacity() - self.back.len() {
            self.len += block.len();
            self.back.append(block);
        } else {
            let entries = block.drain(..).map(Entry::into_inner);
            entries.for_each(|entry| self.push(entry));
        }
    }

    /// Returns the newest entry, if it is still in the back block.
    pub(crate) fn last(&self) -> Option<&J> {
        self.back.back().map(Entry::get)
    }

    /// Removes that entry.
    pub(crate) fn take_last(&mut self) -> Option<J> {
        // The newest only, because its submitter still holds the lock under which it entered.
        let last = self.back.pop_back()?;
        self.len -= 1;
        Some(last.into_inner())
    }

    /// All entries, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &J> {
        let middle = self.middle.iter().flatten();
        let entries = self.front.iter().chain(middle).chain(&self.back);
        entries.map(Entry::get)
    }

    /// Removes the entries of one block that match `goes`. The next call visits the next block, in a cycle.
    ///
    /// So no call takes long, however many entries there are. The rest of a swept block is merged into the block
    /// before it if it fits, so of two neighbouring swept blocks at least one is more than half full.
    pub(crate) fn sweep(&mut self, goes: impl Fn(&J) -> bool) -> Block<J> {
        let last = self.middle.len() + 1;
        let at = self.next_sweep.min(last);
        // Back to the front after the last block, so that tombstones behind it are found by a later sweep.
        self.next_sweep = if at == last { 0 } else { at + 1 };
        // A spare block if there is one, so that a sweep under the lock allocates nothing.
        let mut swept = self.spare.pop().unwrap_or_default();
        let block = match at {
            0 => &mut self.front,
            at if at == last => &mut self.back,
            at => &mut self.middle[at - 1],
        };
        for _ in 0..block.len() {
            // Rotated once around, so that the kept entries end up in their old order without other memory.
            let Some(entry) = block.pop_front() else {
                break;
            };
            let kept = if goes(entry.get()) {
                &mut swept
            } else {
                &mut *block
            };
            kept.push_back(entry);
        }
        self.len -= swept.len();
        if at > 0 && at < last {
            self.join_neighbours(at - 1);
        }
        swept
    }

    /// Takes back an emptied block from a caller of [`sweep`](Self::sweep), for reuse.
    pub(crate) fn give_back(&mut self, block: Block<J>) {
        // No more than are kept, or else sweeps would add to the memory of an idle pool.
        if self.spare.len() < self.keep {
            self.spare.push(block);
        }
    }

    /// Merges a middle block into the one before it, if both fit into one.
    fn join_neighbours(&mut self, at: usize) {
        let (before, block) = match at.checked_sub(1) {
            None => (&mut self.front, &mut self.middle[0]),
            Some(before) => {
                let mut two = self.middle.range_mut(before..=at);
                let (Some(before), Some(block)) = (two.next(), two.next()) else {
                    return;
                };
                (before, block)
            }
        };
        if before.len() + block.len() <= BLOCK {
            before.append(block);
            let emptied = self.middle.remove(at);
            self.next_sweep -= 1; // The blocks after the removed one have moved up, and none must be left out.
            self.spare.extend(emptied);
            self.spare.truncate(self.keep);
        }
    }

    /// Removes the spare blocks beyond those that are always kept, when a worker goes idle. The caller drops them
    /// when no lock is held.
    pub(crate) fn trim(&mut self) -> Vec<Block<J>> {
        self.keep = SPARE;
        if self.spare.len() <= 2 * SPARE {
            // A small backlog would otherwise allocate each time it comes.
            return Vec::new();
        }
        self.spare.split_off(SPARE)
    }

    /// Removes all entries, oldest first, and all memory.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = J> + use<J> {
        let Self {
            front,
            middle,
            back,
            ..
        } = std::mem::replace(self, Self::new());
        front
            .into_iter()
            .chain(middle.into_iter().flatten())
            .chain(back)
            .map(Entry::into_inner)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use testkit::{Counted, DropCounter, PanicOnDrop};

    use super::*;

    #[test]
    fn entries_leave_in_the_order_they_came_across_blocks() {
        let mut queue = TaskQueue::new();
        let (mut pushed, mut popped) = (0, 0);
        // Grows by 7 and shrinks by 5 until several blocks deep, then drains.
        while pushed < 20 * BLOCK {
            for _ in 0..7 {
                queue.push(pushed);
                pushed += 1;
            }
            for _ in 0..5 {
                assert_eq!(queue.pop(), Some(popped));
                popped += 1;
            }
            assert_eq!(queue.len(), pushed - popped);
        }
        while let Some(entry) = queue.pop() {
            assert_eq!(entry, popped);
            popped += 1;
        }
        assert_eq!((popped, queue.len()), (pushed, 0));
    }

    #[test]
    fn an_entry_that_is_put_back_is_the_next_to_leave_whatever_the_length() {
        for length in [1, 2, BLOCK, BLOCK + 1, 2 * BLOCK + 1] {
            let mut queue = TaskQueue::new();
            (0..length).for_each(|entry| queue.push(entry));
            for expected in 0..length {
                let entry = queue.pop().expect("not all have left");
                queue.unpop(entry);
                assert_eq!(queue.len(), length - expected);
                assert_eq!(queue.pop(), Some(expected));
            }
            assert_eq!((queue.len(), queue.pop()), (0, None));
            queue.unpop(7);
            queue.push(8);
            assert_eq!(
                [queue.pop(), queue.pop(), queue.pop()],
                [Some(7), Some(8), None]
            );
        }
    }

    #[test]
    fn another_queue_joins_the_end_in_order_whatever_the_two_lengths() {
        let lengths = [
            0,
            1,
            BLOCK / 4,
            BLOCK / 4 + 1,
            BLOCK,
            BLOCK + 1,
            3 * BLOCK + 7,
        ];
        for join in [TaskQueue::append, TaskQueue::append_chunk] {
            for (ours, others) in lengths.into_iter().flat_map(|n| lengths.map(|m| (n, m))) {
                let (mut queue, mut other) = (TaskQueue::new(), TaskQueue::with_capacity(others));
                (0..=ours).for_each(|entry| queue.push(entry));
                assert_eq!(queue.pop(), Some(0));
                (0..=others).for_each(|entry| other.push(ours + entry));
                assert_eq!(other.pop(), Some(ours));
                join(&mut queue, &mut other);
                assert_eq!((queue.len(), other.len()), (ours + others, 0));
                other.push(7);
                queue.push(ours + others + 1);
                let entries: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
                assert!(
                    entries.into_iter().eq(1..=ours + others + 1),
                    "{ours}, {others}"
                );
                assert_eq!((queue.len(), other.pop(), other.pop()), (0, Some(7), None));
            }
        }
    }

    #[test]
    fn a_short_chunk_brings_no_memory_and_takes_none() {
        let mut queue = TaskQueue::new();
        fill(&mut queue, 2);
        drain(&mut queue);
        let before = kept(&queue);
        let mut chunk = TaskQueue::with_capacity(16);
        (0..16).for_each(|entry| chunk.push(entry));
        queue.append_chunk(&mut chunk);
        assert!(std::iter::from_fn(|| queue.pop()).eq(0..16));
        assert_eq!((kept(&queue), kept(&chunk)), (before, 16));
    }

    #[test]
    fn taking_all_yields_the_oldest_first_and_leaves_an_empty_queue() {
        let mut queue = TaskQueue::new();
        (0..3 * BLOCK).for_each(|entry| queue.push(entry));
        assert_eq!(queue.pop(), Some(0));
        assert!(queue.take_all().eq(1..3 * BLOCK));
        assert_eq!((queue.len(), queue.pop()), (0, None));
        queue.push(7);
        assert_eq!(queue.pop(), Some(7));
    }

    /// Entries there is memory for, of a queue that is empty.
    fn kept<J>(queue: &TaskQueue<J>) -> usize {
        assert!(queue.middle.is_empty());
        let spare = queue.spare.iter().map(VecDeque::capacity).sum::<usize>();
        queue.front.capacity() + queue.back.capacity() + spare
    }

    fn fill(queue: &mut TaskQueue<usize>, blocks: usize) {
        (0..blocks * BLOCK).for_each(|entry| queue.push(entry));
    }

    fn drain(queue: &mut TaskQueue<usize>) {
        while queue.pop().is_some() {}
    }

    #[test]
    fn memory_beyond_the_spare_blocks_is_given_back() {
        let mut queue = TaskQueue::new();
        fill(&mut queue, 100);
        drain(&mut queue);
        assert!(kept(&queue) <= (SPARE + 2) * BLOCK, "{}", kept(&queue));
    }

    #[test]
    fn what_came_in_one_go_leaves_its_memory_for_the_next_to_come() {
        let (mut queue, mut inbox) = (TaskQueue::new(), TaskQueue::new());
        fill(&mut inbox, 100);
        queue.append(&mut inbox);
        drain(&mut queue);
        assert!(kept(&queue) >= 99 * BLOCK);
        inbox.push(0);
        queue.append(&mut inbox);
        assert!(kept(&inbox) >= 98 * BLOCK, "where entries enter");
    }

    #[test]
    fn memory_that_is_not_needed_goes_little_by_little_while_entries_come_and_at_once_when_none_do()
    {
        let (mut queue, mut inbox) = (TaskQueue::new(), TaskQueue::new());
        let mut go = |blocks| {
            fill(&mut inbox, blocks);
            queue.append(&mut inbox);
            drain(&mut queue);
            kept(&queue) + kept(&inbox)
        };
        let peak = go(100);
        assert!(go(3) > peak * 3 / 4);
        let left = (0..60).map(|_| go(3)).last();
        assert!(left <= Some(4 * SPARE * BLOCK), "{left:?}");

        assert!(go(100) > 90 * BLOCK);
        let garbage = [queue.trim(), inbox.trim()];
        assert!(garbage.iter().flatten().count() > 80);
        for queue in [&mut queue, &mut inbox] {
            assert!(kept(queue) <= (2 * SPARE + 2) * BLOCK, "{}", kept(queue));
            assert_eq!(queue.trim().len(), 0, "what is always kept");
        }
    }

    /// Sweeps every block once.
    fn sweep_all(queue: &mut TaskQueue<usize>, goes: impl Fn(&usize) -> bool) -> usize {
        let blocks = queue.middle.len() + 2;
        queue.next_sweep = 0;
        (0..blocks).map(|_| queue.sweep(&goes).len()).sum()
    }

    #[test]
    fn a_sweep_takes_what_it_is_told_to_out_of_one_block_and_keeps_the_order_of_the_rest() {
        for length in [0, 1, BLOCK, BLOCK + 1, 4 * BLOCK + 9] {
            for gone in [1, 2, 3, 7] {
                let mut queue = TaskQueue::new();
                (0..length).for_each(|entry| queue.push(entry));
                assert_eq!(queue.pop(), (length > 0).then_some(0));
                let goes = |entry: &usize| entry.is_multiple_of(gone);
                let left = (1..length).filter(|entry| !goes(entry)).count();
                let swept = sweep_all(&mut queue, goes);
                assert_eq!(
                    (queue.len(), swept),
                    (left, length.saturating_sub(1) - left)
                );
                assert_eq!(queue.iter().count(), left);
                queue.push(length);
                let entries: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
                let expected = (1..length).filter(|entry| !goes(entry)).chain([length]);
                assert!(entries.into_iter().eq(expected), "{length}, {gone}");
            }
        }
    }

    #[test]
    fn one_sweep_looks_at_one_block_and_the_next_at_the_next() {
        let mut queue = TaskQueue::new();
        fill(&mut queue, 5);
        let sizes: Vec<_> = (0..12)
            .map(|_| queue.sweep(|entry| entry % 2 == 0).len())
            .collect();
        assert!(sizes.iter().all(|&size| size <= BLOCK), "{sizes:?}");
        assert_eq!(
            sizes.iter().sum::<usize>(),
            5 * BLOCK / 2,
            "none was left out"
        );
    }

    /// Each way in which entries leave a queue.
    const LEAVE: [fn(TaskQueue<Dropped>); 7] = [
        drop,
        |mut queue| while queue.pop().is_some() {},
        |mut queue| drop(queue.take_all()),
        |mut queue| _ = queue.take_all().nth(2),
        |mut queue| {
            let entry = queue.pop().expect("there are three");
            queue.unpop(entry);
        },
        |mut queue| while !queue.sweep(|_| true).is_empty() {},
        |mut queue| {
            let mut all = TaskQueue::new();
            all.append(&mut TaskQueue::with_capacity(1));
            all.append_chunk(&mut queue);
        },
    ];

    #[expect(dead_code, reason = "held for its drop")]
    struct Dropped(Counted, Option<PanicOnDrop>);

    #[test]
    fn an_entry_is_dropped_once_however_it_leaves_though_one_of_them_panics() {
        for leave in LEAVE {
            for length in [3, BLOCK + 3, 3 * BLOCK] {
                let (mut queue, drops) = (TaskQueue::new(), DropCounter::new());
                for entry in 0..length {
                    let bomb = (entry == 1).then(PanicOnDrop::new);
                    queue.push(Dropped(drops.token(), bomb));
                }
                let left = catch_unwind(AssertUnwindSafe(|| leave(queue)));
                assert!(left.is_err(), "the second entry panics");
                assert_eq!((drops.alive(), drops.dropped()), (0, length));
            }
        }
    }

    #[test]
    fn blocks_that_sweeps_have_thinned_out_are_joined_and_their_memory_is_given_back() {
        let mut queue = TaskQueue::new();
        fill(&mut queue, 100);
        let swept = sweep_all(&mut queue, |entry| entry % 100 != 0);
        assert_eq!((swept, queue.len()), (100 * BLOCK - BLOCK, BLOCK));
        assert!(queue.middle.len() <= 3, "{}", queue.middle.len());
        assert!(queue.spare.len() <= SPARE);
        let entries: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert!(entries.into_iter().eq((0..BLOCK).map(|n| n * 100)));
    }
}

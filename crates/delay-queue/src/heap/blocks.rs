//! A growing array that never moves what is in it: memory of a fixed size is added, where a `Vec`
//! would copy all. Only the first block grows by doubling, as long as there is no other.

use alloc::vec::Vec;

/// Elements in a block are 2^this, but for the first one.
const SHIFT: usize = 14;
const BLOCK: usize = 1 << SHIFT;
/// As many elements are in the first block when there are others.
const FIRST: usize = 1 << 17;

/// Up to `DOUBLED` elements the first block doubles, then it grows by a sixteenth.
#[derive(Debug)]
pub(super) struct Blocks<T, const DOUBLED: usize> {
    /// The first block, which is found without a detour: it is all there is of most.
    first: Vec<T>,
    /// The others, each of one size, but for the last one.
    others: Vec<Vec<T>>,
    len: usize,
    capacity: usize,
}

impl<T, const DOUBLED: usize> Blocks<T, DOUBLED> {
    pub(super) const fn new() -> Self {
        Self {
            first: Vec::new(),
            others: Vec::new(),
            len: 0,
            capacity: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        match self.first.get(index) {
            None => self.get_behind(index),
            found => found,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index < self.first.len() {
            return self.first.get_mut(index);
        }
        self.get_mut_behind(index)
    }

    /// Not inlined, so that the first block costs no more than a `Vec` does.
    #[inline(never)]
    fn get_behind(&self, index: usize) -> Option<&T> {
        let index = index.wrapping_sub(FIRST);
        self.others.get(index >> SHIFT)?.get(index % BLOCK)
    }

    #[inline(never)]
    fn get_mut_behind(&mut self, index: usize) -> Option<&mut T> {
        let index = index.wrapping_sub(FIRST);
        self.others.get_mut(index >> SHIFT)?.get_mut(index % BLOCK)
    }

    #[inline]
    pub(super) fn push(&mut self, value: T) {
        if self.first.len() < self.first.capacity() {
            self.first.push(value);
            self.len += 1;
        } else {
            self.push_behind(value);
        }
    }

    #[inline(never)]
    fn push_behind(&mut self, value: T) {
        if self.len == self.capacity {
            self.grow();
        }
        if self.len < FIRST {
            self.first.push(value);
        } else if let Some(block) = self.others.get_mut((self.len - FIRST) >> SHIFT) {
            block.push(value);
        }
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let block = match last.checked_sub(FIRST) {
            Some(behind) => self.others.get_mut(behind >> SHIFT)?,
            None => &mut self.first,
        };
        self.len = last;
        block.pop()
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// Drops all and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.first.clear();
        self.others.iter_mut().for_each(Vec::clear);
        self.len = 0;
    }

    /// Makes room for so many in all.
    pub(super) fn reserve(&mut self, capacity: usize) {
        if capacity > self.capacity {
            self.grow_to(capacity);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let more = match self.len {
            FIRST.. => BLOCK,
            len if len < DOUBLED => len.max(4),
            len => len / 16,
        };
        let limit = if self.len < FIRST { FIRST } else { usize::MAX };
        self.grow_to((self.len + more).min(limit));
    }

    fn grow_to(&mut self, capacity: usize) {
        if self.capacity < FIRST {
            let first = capacity.min(FIRST);
            self.first.reserve_exact(first - self.first.len());
            self.capacity = first;
        }
        while self.capacity < capacity {
            let filled = (self.capacity - FIRST) % BLOCK;
            let wanted = (capacity - (self.capacity - filled)).min(BLOCK);
            if filled == 0 {
                self.others.push(Vec::with_capacity(wanted));
            } else if let Some(block) = self.others.last_mut() {
                block.reserve_exact(wanted - block.len());
            }
            self.capacity += wanted - filled;
        }
    }

    /// Gives back memory, but for so many, or as many as there are.
    pub(super) fn shrink_to(&mut self, capacity: usize) {
        let capacity = capacity.max(self.len);
        if capacity >= self.capacity {
            return;
        }
        let behind = capacity.saturating_sub(FIRST);
        self.others.truncate(behind.div_ceil(BLOCK));
        if behind == 0 {
            self.first.shrink_to(capacity);
        } else if !behind.is_multiple_of(BLOCK)
            && let Some(block) = self.others.last_mut()
        {
            block.shrink_to(behind % BLOCK);
        }
        self.others.shrink_to_fit();
        self.capacity = capacity;
    }
}

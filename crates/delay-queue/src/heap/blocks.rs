//! A growing array that never moves what is in it: memory of a fixed size is added, where a `Vec`
//! would copy all. Only the first block grows by doubling, as long as there is no other.

use alloc::vec::Vec;

/// Elements in a block are 2^this.
const SHIFT: usize = 14;
const BLOCK: usize = 1 << SHIFT;

#[derive(Debug)]
pub(super) struct Blocks<T> {
    /// The first block, which is found without a detour: it is all there is of most.
    first: Vec<T>,
    blocks: Vec<Vec<T>>,
    len: usize,
    capacity: usize,
}

impl<T> Blocks<T> {
    pub(super) const fn new() -> Self {
        Self {
            first: Vec::new(),
            blocks: Vec::new(),
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
            None => self
                .blocks
                .get((index >> SHIFT).wrapping_sub(1))?
                .get(index % BLOCK),
            first => first,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index < BLOCK {
            return self.first.get_mut(index);
        }
        let block = self.blocks.get_mut((index >> SHIFT) - 1)?;
        block.get_mut(index % BLOCK)
    }

    #[inline]
    pub(super) fn push(&mut self, value: T) {
        if self.len == self.capacity {
            self.grow(1);
        }
        if let Some(block) = self.block(self.len >> SHIFT) {
            block.push(value);
            self.len += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let value = self.block(last >> SHIFT)?.pop();
        self.len = last;
        value
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// Drops all and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.first.clear();
        self.blocks.iter_mut().for_each(Vec::clear);
        self.len = 0;
    }

    #[inline]
    fn block(&mut self, number: usize) -> Option<&mut Vec<T>> {
        match number.checked_sub(1) {
            None => Some(&mut self.first),
            Some(number) => self.blocks.get_mut(number),
        }
    }

    /// Makes room for so many in all.
    pub(super) fn reserve(&mut self, capacity: usize) {
        if capacity > self.capacity {
            self.grow_to(capacity);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let doubled = if self.len < BLOCK {
            (2 * self.len).clamp(4, BLOCK)
        } else {
            // The next block is allocated whole.
            (self.len + more).next_multiple_of(BLOCK)
        };
        self.grow_to(doubled);
    }

    fn grow_to(&mut self, capacity: usize) {
        while self.capacity < capacity {
            let filled = self.capacity % BLOCK;
            let wanted = (capacity - (self.capacity - filled)).min(BLOCK);
            if self.capacity < BLOCK {
                self.first.reserve_exact(wanted - self.first.len());
            } else if filled == 0 {
                self.blocks.push(Vec::with_capacity(wanted));
            } else if let Some(block) = self.blocks.last_mut() {
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
        let blocks = capacity.div_ceil(BLOCK);
        self.blocks.truncate(blocks.saturating_sub(1));
        if blocks < 2 {
            self.first.shrink_to(capacity);
        } else if capacity % BLOCK > 0
            && let Some(block) = self.blocks.last_mut()
        {
            block.shrink_to(capacity % BLOCK);
        }
        self.blocks.shrink_to_fit();
        self.capacity = capacity;
    }
}

//! A queue of slots that is a row of lists, none of them long: so that one with too few live slots
//! is made anew in a bounded time, and one without any is passed at once.
//!
//! # Invariants
//! 1. Slots that came later lie in the same list behind, or in a later list.
//! 2. The lists before `front` and behind `back` are empty.

use alloc::collections::VecDeque;

use super::chunks::{Chunks, LISTS, small};

#[derive(Debug)]
pub(super) struct Fifo {
    /// Each is a block of lists.
    blocks: VecDeque<u32>,
    front: usize,
    back: usize,
}

impl Fifo {
    pub(super) const fn new() -> Self {
        Self {
            blocks: VecDeque::new(),
            front: 0,
            back: 0,
        }
    }

    /// Whose only list is this one, which is empty afterwards.
    pub(super) fn of_list(list: u32, chunks: &mut Chunks) -> Self {
        let block = chunks.add_lists(false);
        chunks.rename(list, block);
        Self {
            blocks: VecDeque::from([block]),
            front: 0,
            back: 0,
        }
    }

    /// The list that the next slot has to be pushed to, if a list should get as long as that.
    #[inline]
    pub(super) fn back(&mut self, length: usize, for_lane: bool, chunks: &mut Chunks) -> u32 {
        let back = self.at(self.back);
        match back {
            Some(list) if !chunks.is_chunk_full(list) || chunks.len(list) < length => list,
            _ => self.add(for_lane, chunks),
        }
    }

    /// The last list, which may be empty.
    pub(super) fn last(&self) -> Option<u32> {
        self.at(self.back)
    }

    #[cold]
    fn add(&mut self, for_lane: bool, chunks: &mut Chunks) -> u32 {
        if !self.blocks.is_empty() {
            self.back += 1;
        }
        if self.back == self.blocks.len() * LISTS {
            self.blocks.push_back(chunks.add_lists(for_lane));
        }
        self.blocks[self.back / LISTS] + small(self.back % LISTS)
    }

    /// The first list that is not empty. If there is none, nothing is kept.
    pub(super) fn front(&mut self, chunks: &mut Chunks) -> Option<u32> {
        while let Some(list) = self.at(self.front) {
            if !chunks.is_empty(list) {
                return Some(list);
            }
            if self.front == self.back {
                break;
            }
            self.front += 1;
            if self.front == LISTS
                && let Some(block) = self.blocks.pop_front()
            {
                chunks.drop_lists(block);
                self.front = 0;
                self.back -= LISTS;
            }
        }
        for block in self.blocks.drain(..) {
            chunks.drop_lists(block);
        }
        (self.front, self.back) = (0, 0);
        None
    }

    /// All its lists in order.
    pub(super) fn lists(&self) -> impl Iterator<Item = u32> {
        (self.front..=self.back).filter_map(|index| self.at(index))
    }

    #[inline]
    fn at(&self, index: usize) -> Option<u32> {
        let block = self.blocks.get(index / LISTS)?;
        Some(block + small(index % LISTS))
    }
}

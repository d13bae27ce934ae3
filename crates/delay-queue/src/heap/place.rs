//! Where a key lies.

use core::num::NonZeroU32;

/// Where a key lies, in one word that is never zero: a slot tells by a zero that it is vacant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(NonZeroU32);

/// A [`Place`], spelled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// In the heap of near ones.
    Heap(usize),
    /// In the run.
    Run(usize),
    /// In the chunks.
    Chunks(usize),
    /// In none of them.
    Nowhere,
}

const BITS: u32 = 30;
const HEAP: u32 = 1 << BITS;
const RUN: u32 = 2 << BITS;
const CHUNKS: u32 = 3 << BITS;
/// Every index is below this.
pub(super) const LIMIT: usize = 1 << BITS;

impl Place {
    /// Where no key lies.
    pub(super) const NOWHERE: Self = Self(NonZeroU32::MIN);

    pub(super) fn heap(index: usize) -> Self {
        Self::new(HEAP, index)
    }

    pub(super) fn run(index: usize) -> Self {
        Self::new(RUN, index)
    }

    pub(super) fn chunks(index: usize) -> Self {
        Self::new(CHUNKS, index)
    }

    pub(super) fn get(self) -> Where {
        let index = (self.0.get() & (HEAP - 1)) as usize;
        match self.0.get() & !(HEAP - 1) {
            HEAP => Where::Heap(index),
            RUN => Where::Run(index),
            CHUNKS => Where::Chunks(index),
            _ => Where::Nowhere,
        }
    }

    fn new(list: u32, index: usize) -> Self {
        debug_assert!(index < LIMIT);
        #[expect(clippy::cast_possible_truncation, reason = "it is below the limit")]
        let word = list | index as u32;
        // None of the lists is zero, so neither is the word.
        Self(NonZeroU32::new(word).unwrap_or(NonZeroU32::MIN))
    }
}

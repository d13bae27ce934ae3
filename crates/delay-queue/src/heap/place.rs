//! Where a key lies.

use core::num::NonZeroU32;

/// Where a key lies, in one word that is never zero: a zero marks a vacant slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(NonZeroU32);

/// A [`Place`], spelled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// In the heap of near ones.
    Heap(usize),
    /// In the heap of gathered ones.
    Gathered(usize),
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
/// Of those without a list in their upper bits, the ones from here on are gathered. The word below
/// is [`Place::NOWHERE`].
const FIRST_GATHERED: usize = 2;
/// Every index is below this.
pub(super) const LIMIT: usize = 1 << BITS;

impl Place {
    /// Where no key lies.
    pub(super) const NOWHERE: Self = Self(NonZeroU32::MIN);

    pub(super) fn heap(index: usize) -> Self {
        Self::new(HEAP, index)
    }

    pub(super) fn gathered(index: usize) -> Self {
        Self::new(0, index + FIRST_GATHERED)
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
            _ => match index.checked_sub(FIRST_GATHERED) {
                Some(index) => Where::Gathered(index),
                None => Where::Nowhere,
            },
        }
    }

    fn new(list: u32, index: usize) -> Self {
        debug_assert!(index < LIMIT);
        #[expect(clippy::cast_possible_truncation, reason = "it is below the limit")]
        let word = list | index as u32;
        // None of the lists is zero, and without one the index is not: so neither is the word.
        Self(NonZeroU32::new(word).unwrap_or(NonZeroU32::MIN))
    }
}

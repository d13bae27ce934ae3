//! The place of a key in a line's lists.

use core::num::NonZeroU32;

/// The place of a key, in one word that is never zero: zero marks a vacant slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(NonZeroU32);

/// A decoded [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// In the heap of near keys.
    Heap(usize),
    /// In the heap of gathered keys.
    Gathered(usize),
    Run(usize),
    Chunks(usize),
    Nowhere,
}

const BITS: u32 = 30;
const HEAP: u32 = 1 << BITS;
const RUN: u32 = 2 << BITS;
const CHUNKS: u32 = 3 << BITS;
/// Among the words without a list in their upper bits, those from here on are gathered. The one
/// below is [`Place::NOWHERE`].
const FIRST_GATHERED: usize = 2;
/// Every index is less than this.
pub(super) const LIMIT: usize = 1 << BITS;

impl Place {
    /// The place of a key that is in no list.
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
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the index is below the limit"
        )]
        let word = list | index as u32;
        // The word is not zero: lists have numbers from one, and without a list the index is
        // positive.
        Self(NonZeroU32::new(word).unwrap_or(NonZeroU32::MIN))
    }
}

//! A value of any size in a space of one size.
//!
//! What lies in a queue is moved several times on its way, some of these under the pool's lock
//! and most of them through a worker's stack. So a value of up to seven words lies in the space
//! itself, and a larger one in a box: boxing all of them would cost an allocation per task.
//!
//! # Invariants
//! 1. A [`Space`] that [`put`] made for a `W` holds that `W`, or a pointer from
//!    `Box::<W>::into_raw`, until the one [`take`] of it.
//! 2. After that `take` the space is not used again.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

const WORDS: usize = 7;
/// In a cell, as the value that lies there may change itself though it is only looked at.
pub(crate) type Space = UnsafeCell<MaybeUninit<[usize; WORDS]>>;

pub(crate) const fn fits<W>() -> bool {
    size_of::<W>() <= size_of::<Space>() && align_of::<W>() <= align_of::<Space>()
}

/// Moves a value into a space.
#[inline]
pub(crate) fn put<W>(value: W) -> Space {
    let mut space = Space::new(MaybeUninit::uninit());
    // SAFETY: it is a space's.
    unsafe { put_in(value, &raw mut space) };
    space
}

/// Moves a value into a space that lies there.
///
/// # Safety
/// `space` may be written.
#[inline]
pub(crate) unsafe fn put_in<W>(value: W, space: *mut Space) {
    if fits::<W>() {
        // SAFETY: `fits` says that the space is large and aligned enough for a `W`.
        unsafe { space.cast::<W>().write(value) };
    } else {
        let boxed = Box::into_raw(Box::new(value));
        // SAFETY: a thin pointer fits a word.
        unsafe { space.cast::<*mut W>().write(boxed) };
    }
}

/// Moves the value out of the space.
///
/// # Safety
/// The space holds a `W` as `put` put it there, and is not used again.
pub(crate) unsafe fn take<W>(space: *mut Space) -> W {
    if fits::<W>() {
        // SAFETY: the caller's.
        unsafe { space.cast::<W>().read() }
    } else {
        // SAFETY: the caller's.
        let boxed = unsafe { space.cast::<*mut W>().read() };
        // SAFETY: it came from `Box::into_raw`, and goes back once.
        *unsafe { Box::from_raw(boxed) }
    }
}

/// The value, where it lies.
///
/// # Safety
/// The space holds a `W` as `put` put it there.
pub(crate) unsafe fn look<W>(space: &Space) -> &W {
    let space = space.get().cast_const();
    if fits::<W>() {
        // SAFETY: the caller's; it is borrowed for as long as the space.
        unsafe { &*space.cast::<W>() }
    } else {
        // SAFETY: the caller's.
        let boxed = unsafe { space.cast::<*const W>().read() };
        // SAFETY: the box is the space's for as long as that is borrowed.
        unsafe { &*boxed }
    }
}

/// One value of a known type in a space.
pub(crate) struct Packed<T> {
    space: Space,
    of: PhantomData<T>,
}

impl<T> Packed<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            space: put(value),
            of: PhantomData,
        }
    }

    /// The value that lies there.
    ///
    /// # Safety
    /// The space holds a `T` as [`put`] put it there, and is not used again.
    #[inline]
    pub(crate) unsafe fn of(space: *const Space) -> Self {
        Self {
            // SAFETY: the caller's.
            space: unsafe { space.read() },
            of: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn into_inner(self) -> T {
        let mut packed = ManuallyDrop::new(self);
        // SAFETY: `new` put a `T` there, and `ManuallyDrop` keeps `drop` from taking it again.
        unsafe { take(&raw mut packed.space) }
    }
}

impl<T> Drop for Packed<T> {
    fn drop(&mut self) {
        // SAFETY: `new` put a `T` there; if `into_inner` had taken it, this would not run.
        drop(unsafe { take::<T>(&raw mut self.space) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;

    fn comes_back_and_is_dropped_once<const N: usize>() {
        let token = Arc::new(());
        let value = || (Arc::clone(&token), [7_u8; N]);

        drop(Packed::new(value()));
        assert_eq!(Arc::strong_count(&token), 1);

        let (held, bytes) = Packed::new(value()).into_inner();
        assert_eq!((Arc::strong_count(&token), bytes), (2, [7; N]));
        drop(held);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn a_packed_value_of_any_size_comes_back_whole_and_is_dropped_once() {
        comes_back_and_is_dropped_once::<0>();
        comes_back_and_is_dropped_once::<48>();
        comes_back_and_is_dropped_once::<49>();
        comes_back_and_is_dropped_once::<4096>();
    }

    /// Sees only that there is a space: were its bytes taken for unchangeable, the change would get lost
    /// (in an optimized build; Miri says so in any).
    #[inline(never)]
    fn change(space: &Space) {
        // SAFETY: the only caller has put it there.
        unsafe { look::<Cell<usize>>(space) }.set(5);
    }

    #[test]
    fn a_value_may_change_itself_where_it_lies() {
        let mut space = put(Cell::new(1_usize));
        change(&space);
        // SAFETY: it was put there, and the space is not used again.
        assert_eq!(unsafe { take::<Cell<usize>>(&raw mut space) }.get(), 5);
    }

    #[test]
    fn a_packed_value_takes_a_cache_line_less_a_word_whatever_its_size() {
        assert_eq!(size_of::<Packed<u8>>(), 56);
        assert_eq!(size_of::<Packed<[u8; 4096]>>(), 56);
    }
}

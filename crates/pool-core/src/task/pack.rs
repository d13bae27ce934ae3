//! Storage for a value of any size in a space of fixed size.
//!
//! A queue entry is moved several times, some of these under the pool's lock and most of them over a worker's stack. So a
//! value of up to seven words is stored in the space itself and a larger one in a box. Boxing every value would cost an
//! allocation per task.
//!
//! # Invariants
//! 1. A [`Space`] that [`put`] created for a `W` holds that `W`, or a pointer from `Box::<W>::into_raw`, until the one
//!    [`take`] of it.
//! 2. The space is not used after that `take`.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

const WORDS: usize = 7;
/// In an `UnsafeCell`, because a value with interior mutability may change while it is only borrowed.
pub(crate) type Space = UnsafeCell<MaybeUninit<[usize; WORDS]>>;

pub(crate) const fn fits<W>() -> bool {
    size_of::<W>() <= size_of::<Space>() && align_of::<W>() <= align_of::<Space>()
}

/// Moves a value into a space.
#[inline]
pub(crate) fn put<W>(value: W) -> Space {
    let mut space = Space::new(MaybeUninit::uninit());
    // SAFETY: the pointer is that of a local space.
    unsafe { put_in(value, &raw mut space) };
    space
}

/// Moves a value into a space in place.
///
/// # Safety
/// `space` must be valid for writes.
#[inline]
pub(crate) unsafe fn put_in<W>(value: W, space: *mut Space) {
    if fits::<W>() {
        // SAFETY: `fits` says that the space is large and aligned enough for a `W`.
        unsafe { space.cast::<W>().write(value) };
    } else {
        let boxed = Box::into_raw(Box::new(value));
        // SAFETY: a thin pointer fits into a word of the space.
        unsafe { space.cast::<*mut W>().write(boxed) };
    }
}

/// Moves the value out of the space.
///
/// # Safety
/// The space must hold a `W` from `put`, and must not be used afterwards.
pub(crate) unsafe fn take<W>(space: *mut Space) -> W {
    if fits::<W>() {
        // SAFETY: the caller guarantees the type and that this is the last use.
        unsafe { space.cast::<W>().read() }
    } else {
        // SAFETY: the caller guarantees the type, which `put` has boxed.
        let boxed = unsafe { space.cast::<*mut W>().read() };
        // SAFETY: the pointer came from `Box::into_raw` and is used once.
        *unsafe { Box::from_raw(boxed) }
    }
}

/// Borrows the value in place.
///
/// # Safety
/// The space must hold a `W` from `put`.
pub(crate) unsafe fn look<W>(space: &Space) -> &W {
    let space = space.get().cast_const();
    if fits::<W>() {
        // SAFETY: the caller guarantees the type; the value is borrowed for as long as the space.
        unsafe { &*space.cast::<W>() }
    } else {
        // SAFETY: the caller guarantees the type, which `put` has boxed.
        let boxed = unsafe { space.cast::<*const W>().read() };
        // SAFETY: the box belongs to the space, which is borrowed.
        unsafe { &*boxed }
    }
}

/// A value of a known type in a space.
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

    /// Takes over the value in `space`.
    ///
    /// # Safety
    /// The space must hold a `T` from [`put`], and must not be used afterwards.
    #[inline]
    pub(crate) unsafe fn of(space: *const Space) -> Self {
        Self {
            // SAFETY: the caller guarantees the type and that this is the last use.
            space: unsafe { space.read() },
            of: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn into_inner(self) -> T {
        let mut packed = ManuallyDrop::new(self);
        // SAFETY: `new` put a `T` there, and `ManuallyDrop` prevents a second drop of it.
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

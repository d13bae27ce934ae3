//! A cell whose accesses loom can watch.

/// An `UnsafeCell` reached through closures, so that a model sees when an access begins and ends.
#[cfg(not(anthill_loom))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

#[cfg(not(anthill_loom))]
impl<T> UnsafeCell<T> {
    /// Puts `value` into a cell.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Takes the value out again.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[cfg(not(anthill_loom))]
impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `f` with a pointer that is only read through.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer that may be written through.
    #[inline]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }

    /// The value, through exclusive access: nothing to watch.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

#[cfg(anthill_loom)]
pub use loom::cell::UnsafeCell;

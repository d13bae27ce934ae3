//! A cell whose accesses loom can watch. Shuttle cannot: there it is std's.

/// An `UnsafeCell` reached through closures, so that a model sees when an access begins and ends.
#[cfg(any(not(anthill_loom), anthill_shuttle))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

#[cfg(any(not(anthill_loom), anthill_shuttle))]
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

#[cfg(any(not(anthill_loom), anthill_shuttle))]
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

/// A cell that loom watches.
#[cfg(all(anthill_loom, not(anthill_shuttle)))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T: ?Sized>(loom::cell::UnsafeCell<T>);

#[cfg(all(anthill_loom, not(anthill_shuttle)))]
impl<T> UnsafeCell<T> {
    /// Puts `value` into a cell.
    pub fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    /// Takes the value out again.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[cfg(all(anthill_loom, not(anthill_shuttle)))]
impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `f` with a pointer that is only read through.
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.0.with(f)
    }

    /// Calls `f` with a pointer that may be written through.
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(f)
    }

    /// The value, through exclusive access. The model checks that it is.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` is the only way to the value for as long as the borrow lives.
        self.0.with_mut(|value| unsafe { &mut *value })
    }
}

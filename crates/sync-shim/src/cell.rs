//! A cell whose accesses loom checks. With shuttle it is std's.

/// An `UnsafeCell` accessed through closures, so that a model sees when an access begins and ends.
#[cfg(any(not(anthill_loom), anthill_shuttle))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

#[cfg(any(not(anthill_loom), anthill_shuttle))]
impl<T> UnsafeCell<T> {
    /// Creates a cell with `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[cfg(any(not(anthill_loom), anthill_shuttle))]
impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `f` with a pointer for reading.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer for writing.
    #[inline]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }

    /// Returns the value. Needs no check, as access is exclusive.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// A cell whose accesses loom checks.
#[cfg(all(anthill_loom, not(anthill_shuttle)))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T: ?Sized>(loom::cell::UnsafeCell<T>);

#[cfg(all(anthill_loom, not(anthill_shuttle)))]
impl<T> UnsafeCell<T> {
    /// Creates a cell with `value`.
    pub fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[cfg(all(anthill_loom, not(anthill_shuttle)))]
impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `f` with a pointer for reading.
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.0.with(f)
    }

    /// Calls `f` with a pointer for writing.
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(f)
    }

    /// Returns the value. The model checks that access is exclusive.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` is the only way to the value for as long as the borrow lives.
        self.0.with_mut(|value| unsafe { &mut *value })
    }
}

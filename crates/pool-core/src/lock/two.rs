//! Two spin locks.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use backoff_spinlock::{SpinGuard, SpinLock};
use crossbeam_utils::CachePadded;

pub(crate) struct Pair<A, B> {
    // On cache lines of their own: who wants one half takes none away from the other's.
    first: CachePadded<SpinLock<A>>,
    second: CachePadded<SpinLock<B>>,
}

/// The first half.
pub(crate) struct First<'a, A, B> {
    first: SpinGuard<'a, A>,
    second: &'a SpinLock<B>,
}

/// The second half.
pub(crate) struct Second<'a, A, B> {
    second: SpinGuard<'a, B>,
    of: PhantomData<&'a A>,
}

/// Both.
pub(crate) struct Both<'a, A, B> {
    first: SpinGuard<'a, A>,
    second: SpinGuard<'a, B>,
}

impl<A, B> Pair<A, B> {
    pub(crate) fn new(first: A, second: B) -> Self {
        Self {
            first: CachePadded::new(SpinLock::new(first)),
            second: CachePadded::new(SpinLock::new(second)),
        }
    }

    #[inline]
    pub(crate) fn first(&self) -> First<'_, A, B> {
        First {
            first: self.first.lock(),
            second: &self.second,
        }
    }

    #[inline]
    pub(crate) fn second(&self) -> Second<'_, A, B> {
        Second {
            second: self.second.lock(),
            of: PhantomData,
        }
    }
}

impl<'a, A, B> First<'a, A, B> {
    /// Takes the second half too.
    #[inline]
    pub(crate) fn and_second(self) -> Both<'a, A, B> {
        Both {
            first: self.first,
            second: self.second.lock(),
        }
    }

    #[inline]
    pub(crate) fn half(&mut self) -> &mut A {
        &mut self.first
    }
}

impl<A, B> Second<'_, A, B> {
    #[inline]
    pub(crate) fn half(&mut self) -> &mut B {
        &mut self.second
    }
}

impl<A, B> Both<'_, A, B> {
    #[inline]
    pub(crate) fn halves(&mut self) -> (&mut A, &mut B) {
        (&mut self.first, &mut self.second)
    }
}

impl<A, B> Deref for Both<'_, A, B> {
    type Target = A;

    #[inline]
    fn deref(&self) -> &A {
        &self.first
    }
}

impl<A, B> DerefMut for Both<'_, A, B> {
    #[inline]
    fn deref_mut(&mut self) -> &mut A {
        &mut self.first
    }
}

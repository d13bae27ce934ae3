//! Two locks: spin locks, or mutexes in models.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[cfg(not(anthill_loom))]
use backoff_spinlock::{SpinGuard as Guard, SpinLock as Lock};
use crossbeam_utils::CachePadded;
#[cfg(anthill_loom)]
use sync_shim::{Mutex as Lock, MutexGuard as Guard};

pub(crate) struct Pair<A, B> {
    // On separate cache lines, so that taking one half never contends for the line of the other.
    first: CachePadded<Lock<A>>,
    second: CachePadded<Lock<B>>,
}

/// Guard of the first half.
pub(crate) struct First<'a, A, B> {
    first: Guard<'a, A>,
    second: &'a Lock<B>,
}

/// Guard of the second half.
pub(crate) struct Second<'a, A, B> {
    second: Guard<'a, B>,
    of: PhantomData<&'a A>,
}

/// Guard of both halves.
pub(crate) struct Both<'a, A, B> {
    first: Guard<'a, A>,
    second: Guard<'a, B>,
}

impl<A, B> Pair<A, B> {
    pub(crate) fn new(first: A, second: B) -> Self {
        Self {
            first: CachePadded::new(Lock::new(first)),
            second: CachePadded::new(Lock::new(second)),
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
    /// Takes the second lock as well.
    // The only way to hold both, so the order is always first, then second, and no two threads deadlock.
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

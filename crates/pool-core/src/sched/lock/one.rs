//! One lock around both halves, for models.

use std::ops::{Deref, DerefMut};

use sync_shim::{Mutex, MutexGuard};

pub(crate) struct Pair<A, B>(Mutex<(A, B)>);

pub(crate) struct First<'a, A, B>(MutexGuard<'a, (A, B)>);

pub(crate) struct Second<'a, A, B>(MutexGuard<'a, (A, B)>);

pub(crate) struct Both<'a, A, B>(MutexGuard<'a, (A, B)>);

impl<A, B> Pair<A, B> {
    pub(crate) fn new(first: A, second: B) -> Self {
        Self(Mutex::new((first, second)))
    }

    pub(crate) fn first(&self) -> First<'_, A, B> {
        First(self.0.lock())
    }

    pub(crate) fn second(&self) -> Second<'_, A, B> {
        Second(self.0.lock())
    }
}

impl<'a, A, B> First<'a, A, B> {
    // Nothing to take: the one lock covers both halves, so a model has fewer steps to interleave.
    pub(crate) fn and_second(self) -> Both<'a, A, B> {
        Both(self.0)
    }

    pub(crate) fn half(&mut self) -> &mut A {
        &mut self.0.0
    }
}

impl<A, B> Second<'_, A, B> {
    pub(crate) fn half(&mut self) -> &mut B {
        &mut self.0.1
    }
}

impl<A, B> Both<'_, A, B> {
    pub(crate) fn halves(&mut self) -> (&mut A, &mut B) {
        let (first, second) = &mut *self.0;
        (first, second)
    }
}

impl<A, B> Deref for Both<'_, A, B> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0.0
    }
}

impl<A, B> DerefMut for Both<'_, A, B> {
    fn deref_mut(&mut self) -> &mut A {
        &mut self.0.0
    }
}

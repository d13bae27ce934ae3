//! Chooses one or two locks in a model. [`set_two_locks`](sync_shim::model::set_two_locks) says which one an
//! execution uses.

use std::ops::{Deref, DerefMut};

use sync_shim::model::two_locks;

use super::{one, two};

pub(crate) enum Pair<A, B> {
    One(one::Pair<A, B>),
    Two(two::Pair<A, B>),
}

pub(crate) enum First<'a, A, B> {
    One(one::First<'a, A, B>),
    Two(two::First<'a, A, B>),
}

pub(crate) enum Second<'a, A, B> {
    One(one::Second<'a, A, B>),
    Two(two::Second<'a, A, B>),
}

pub(crate) enum Both<'a, A, B> {
    One(one::Both<'a, A, B>),
    Two(two::Both<'a, A, B>),
}

impl<A, B> Pair<A, B> {
    pub(crate) fn new(first: A, second: B) -> Self {
        // Fixed per execution, because a pair that changed kinds in between would have two critical sections at a time.
        if two_locks() {
            Self::Two(two::Pair::new(first, second))
        } else {
            Self::One(one::Pair::new(first, second))
        }
    }

    pub(crate) fn first(&self) -> First<'_, A, B> {
        match self {
            Self::One(pair) => First::One(pair.first()),
            Self::Two(pair) => First::Two(pair.first()),
        }
    }

    pub(crate) fn second(&self) -> Second<'_, A, B> {
        match self {
            Self::One(pair) => Second::One(pair.second()),
            Self::Two(pair) => Second::Two(pair.second()),
        }
    }
}

impl<'a, A, B> First<'a, A, B> {
    pub(crate) fn and_second(self) -> Both<'a, A, B> {
        match self {
            Self::One(first) => Both::One(first.and_second()),
            Self::Two(first) => Both::Two(first.and_second()),
        }
    }

    pub(crate) fn half(&mut self) -> &mut A {
        match self {
            Self::One(first) => first.half(),
            Self::Two(first) => first.half(),
        }
    }
}

impl<A, B> Second<'_, A, B> {
    pub(crate) fn half(&mut self) -> &mut B {
        match self {
            Self::One(second) => second.half(),
            Self::Two(second) => second.half(),
        }
    }
}

impl<A, B> Both<'_, A, B> {
    pub(crate) fn halves(&mut self) -> (&mut A, &mut B) {
        match self {
            Self::One(both) => both.halves(),
            Self::Two(both) => both.halves(),
        }
    }
}

impl<A, B> Deref for Both<'_, A, B> {
    type Target = A;

    fn deref(&self) -> &A {
        match self {
            Self::One(both) => both,
            Self::Two(both) => both,
        }
    }
}

impl<A, B> DerefMut for Both<'_, A, B> {
    fn deref_mut(&mut self) -> &mut A {
        match self {
            Self::One(both) => both,
            Self::Two(both) => both,
        }
    }
}

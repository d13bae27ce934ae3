//! A pair of locks, each around one half of the pool's state. A caller takes one half alone, or the first and then
//! the second.
//!
//! They are spin locks that yield and then sleep, because the sections are a few dozen instructions long.
//! `docs/decisions/pool-lock.md` compares them with `parking_lot`.
//!
//! No section releases one of the two and then takes another one, so every execution is equivalent to one in which the
//! sections run one after the other (two-phase locking: Eswaran, Gray, Lorie and Traiger, 1976). Models therefore
//! use one lock for both halves: it has the same outcomes and far fewer steps. Because that argument depends on
//! `two` and `shared.rs`, each model of this crate also runs on two locks, with fewer pre-emptions. These are
//! mutexes there; the spin lock has models of its own. The further lanes of `lanes.rs`, to which the argument does not
//! apply, have locks of their own in models, too.

#[cfg(anthill_loom)]
pub(crate) use model::{Both, First, Pair, Second, Single};
#[cfg(not(anthill_loom))]
pub(crate) use two::{Both, First, Pair, Second, Single};

/// Chooses one or two locks in a model. [`set_two_locks`](sync_shim::model::set_two_locks) says which one an
/// execution uses.
#[cfg(anthill_loom)]
mod model {
    use std::ops::{Deref, DerefMut};

    use sync_shim::model::two_locks;

    use super::{one, two};

    // An enum, because the number of locks is known only when the execution begins.
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

        pub(crate) fn try_second(&self) -> Option<Second<'_, A, B>> {
            match self {
                Self::One(pair) => pair.try_second().map(Second::One),
                Self::Two(pair) => pair.try_second().map(Second::Two),
            }
        }
    }

    /// A lock like the second one of a pair.
    pub(crate) struct Single<B>(two::Single<B>);

    impl<B> Single<B> {
        pub(crate) fn new(value: B) -> Self {
            Self(two::Single::new(value))
        }

        pub(crate) fn lock<A>(&self) -> Second<'_, A, B> {
            Second::Two(self.0.lock())
        }

        pub(crate) fn try_lock<A>(&self) -> Option<Second<'_, A, B>> {
            self.0.try_lock().map(Second::Two)
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
}

/// One lock around both halves, for models.
#[cfg(anthill_loom)]
mod one {
    use std::ops::{Deref, DerefMut};

    use sync_shim::{Mutex, MutexGuard};

    // One mutex, so that an execution has half as many steps of locks to interleave.
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

        pub(crate) fn try_second(&self) -> Option<Second<'_, A, B>> {
            self.0.try_lock().map(Second)
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
}

/// Two locks: spin locks, or mutexes in models.
mod two {
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};

    #[cfg(not(anthill_loom))]
    use backoff_spinlock::{SpinGuard as Guard, SpinLock as Lock};
    use crossbeam_utils::CachePadded;
    use sync_shim::foreign::Held;
    #[cfg(anthill_loom)]
    use sync_shim::{Mutex as Lock, MutexGuard as Guard};

    pub(crate) struct Pair<A, B> {
        // On separate cache lines, so that taking one half never contends for the line of the other.
        first: CachePadded<Lock<A>>,
        second: CachePadded<Lock<B>>,
    }

    /// Guard of the first half.
    pub(crate) struct First<'a, A, B> {
        guard: Guard<'a, A>,
        // Reachable only through the first lock's guard, so that nobody can take the two in the wrong order.
        second: &'a Lock<B>,
        held: Held,
    }

    /// Guard of the second half.
    pub(crate) struct Second<'a, A, B> {
        guard: Guard<'a, B>,
        // Named, because the model's guard of one lock around both halves has both types, and callers must compile
        // with either.
        of: PhantomData<&'a A>,
        _held: Held,
    }

    /// Guard of both halves.
    pub(crate) struct Both<'a, A, B> {
        first: Guard<'a, A>,
        second: Guard<'a, B>,
        _held: Held,
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
                guard: self.first.lock(),
                second: &self.second,
                held: Held::new(),
            }
        }

        #[inline]
        // Alone, so that a worker that takes its next task does not contend with submitters.
        pub(crate) fn second(&self) -> Second<'_, A, B> {
            Second::new(self.second.lock())
        }

        #[inline]
        pub(crate) fn try_second(&self) -> Option<Second<'_, A, B>> {
            self.second.try_lock().map(Second::new)
        }
    }

    /// A lock like the second one of a pair.
    pub(crate) struct Single<B>(CachePadded<Lock<B>>);

    impl<B> Single<B> {
        pub(crate) fn new(value: B) -> Self {
            Self(CachePadded::new(Lock::new(value)))
        }

        pub(crate) fn lock<A>(&self) -> Second<'_, A, B> {
            Second::new(self.0.lock())
        }

        pub(crate) fn try_lock<A>(&self) -> Option<Second<'_, A, B>> {
            self.0.try_lock().map(Second::new)
        }
    }

    impl<'a, A, B> Second<'a, A, B> {
        #[inline]
        fn new(guard: Guard<'a, B>) -> Self {
            Self {
                guard,
                of: PhantomData,
                _held: Held::new(),
            }
        }
    }

    impl<'a, A, B> First<'a, A, B> {
        /// Takes the second lock as well.
        // The only way to hold both, so the order is always first, then second, and no two threads deadlock.
        #[inline]
        pub(crate) fn and_second(self) -> Both<'a, A, B> {
            Both {
                first: self.guard,
                second: self.second.lock(),
                _held: self.held,
            }
        }

        #[inline]
        pub(crate) fn half(&mut self) -> &mut A {
            &mut self.guard
        }
    }

    impl<A, B> Second<'_, A, B> {
        #[inline]
        pub(crate) fn half(&mut self) -> &mut B {
            &mut self.guard
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
}

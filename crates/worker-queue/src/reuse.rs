//! The choice of the idle worker to reuse next: as a type, or as a value.

/// The idle worker that is reused next. As the type parameter of an
/// [`IdleQueue`](crate::IdleQueue): chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The worker idle for the shortest time (LIFO).
    Newest,
    /// The worker idle for the longest time (FIFO).
    Oldest,
}

/// [`Reuse::Newest`], fixed in the type.
#[derive(Clone, Copy, Debug)]
pub struct Newest;

/// [`Reuse::Oldest`], fixed in the type.
#[derive(Clone, Copy, Debug)]
pub struct Oldest;

/// A choice of the worker to reuse next: [`Newest`], [`Oldest`], or a [`Reuse`]. Sealed: the trait
/// cannot be named outside this crate.
pub trait ReuseOrder {
    #[doc(hidden)]
    fn order(&self) -> Reuse;
}

impl ReuseOrder for Reuse {
    fn order(&self) -> Reuse {
        *self
    }
}

impl ReuseOrder for Newest {
    fn order(&self) -> Reuse {
        Reuse::Newest
    }
}

impl ReuseOrder for Oldest {
    fn order(&self) -> Reuse {
        Reuse::Oldest
    }
}

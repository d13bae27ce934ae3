//! Whom a section owes a call, to be rung when the lock is free.

use std::task::Waker;

use sync_shim::Parker;
use sync_shim::foreign::{discard, guarded};

/// How one who waits is told to look again.
#[derive(Debug)]
pub enum Bell {
    /// A thread, asleep on this.
    Thread(Parker),
    /// A future, which is polled.
    Future(Waker),
    /// A part of this workspace, by a waker that runs no foreign code and waits for nobody.
    Ours(Waker),
}

impl Bell {
    fn is_ours(&self) -> bool {
        !matches!(self, Self::Future(_))
    }

    /// Tells. May run foreign code, so no lock may be held.
    pub fn ring(self) {
        match self {
            Self::Thread(parker) => parker.unpark(),
            Self::Future(waker) | Self::Ours(waker) => {
                if let Err(payload) = guarded(|| waker.wake()) {
                    discard(payload);
                }
            }
        }
    }
}

/// The calls that a section owes. Most owe none or one, which costs no allocation.
#[derive(Debug, Default)]
#[must_use = "somebody sleeps until he is called"]
pub struct Calls {
    first: Option<Bell>,
    rest: Vec<Bell>,
}

impl Calls {
    /// Nobody is to be called.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether nobody is to be called.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Those, too, and after.
    pub fn append(&mut self, others: Self) {
        for bell in others.first.into_iter().chain(others.rest) {
            self.add(bell);
        }
    }

    /// One more.
    pub fn add(&mut self, bell: Bell) {
        if self.first.is_none() {
            self.first = Some(bell);
        } else {
            self.rest.push(bell);
        }
    }

    /// Makes the calls that run no foreign code. They come before all others: a waker that waits
    /// for something must not wait for a call that stands behind its own.
    #[inline]
    pub fn ring_ours(&mut self) {
        if self.first.as_ref().is_some_and(Bell::is_ours)
            && let Some(bell) = self.first.take()
        {
            bell.ring();
        }
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest).into_iter();
            let (ours, theirs): (Vec<_>, _) = rest.partition(Bell::is_ours);
            ours.into_iter().for_each(Bell::ring);
            let mut theirs = theirs.into_iter();
            self.first = self.first.take().or_else(|| theirs.next());
            self.rest = theirs.collect();
        }
    }

    /// Makes the calls: ours, then those to futures, in order. May run foreign code, so no lock
    /// may be held.
    #[inline]
    pub fn ring(mut self) {
        self.ring_ours();
        if let Some(bell) = self.first {
            bell.ring();
            self.rest.into_iter().for_each(Bell::ring);
        }
    }
}

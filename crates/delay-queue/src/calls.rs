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
}

impl Bell {
    /// Tells. May run foreign code, so no lock may be held.
    pub fn ring(self) {
        match self {
            Self::Thread(parker) => parker.unpark(),
            Self::Future(waker) => {
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

    /// Makes the calls, in order. May run foreign code, so no lock may be held.
    #[inline]
    pub fn ring(self) {
        if let Some(bell) = self.first {
            bell.ring();
            self.rest.into_iter().for_each(Bell::ring);
        }
    }
}

//! The wake list of a section: which waiters to wake when the lock is free.

use std::task::Waker;

use sync_shim::Parker;
use sync_shim::foreign::wake;

/// What wakes one waiter: a sleeping thread, or a pending future.
#[derive(Debug)]
#[doc(alias = "Notify")]
pub enum Waiter {
    /// A thread that sleeps on this parker.
    Thread(Parker),
    /// A future, by the waker of its last poll. Waking and dropping it is user code.
    Future(Waker),
    /// A part of this workspace, by a waker that runs no user code and never blocks.
    Internal(Waker),
}

impl Waiter {
    fn runs_user_code(&self) -> bool {
        matches!(self, Self::Future(_))
    }

    /// Wakes it. May run user code, so no lock may be held.
    #[doc(alias = "notify")]
    pub fn wake(self) {
        match self {
            Self::Thread(parker) => parker.unpark(),
            Self::Future(waker) | Self::Internal(waker) => wake(waker),
        }
    }
}

/// The waiters that a section has dequeued, to be woken when the lock is free.
///
/// Most sections wake none or one, which costs no allocation.
#[derive(Debug, Default)]
#[must_use = "a waiter that is dequeued and not woken sleeps for ever"]
pub struct WakeList {
    first: Option<Waiter>,
    rest: Vec<Waiter>,
}

impl WakeList {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is nothing to wake.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Appends another list.
    pub fn append(&mut self, others: Self) {
        for waiter in others.first.into_iter().chain(others.rest) {
            self.push(waiter);
        }
    }

    /// Appends a waiter.
    pub fn push(&mut self, waiter: Waiter) {
        if self.first.is_none() {
            self.first = Some(waiter);
        } else {
            self.rest.push(waiter);
        }
    }

    /// Wakes the waiters that run no user code, threads above all, and leaves the futures.
    ///
    /// Step 1 of the deferred effects (`PROTOCOL.md`): a waker may block until a thread of this
    /// list has done something, so that thread must be awake before any waker runs.
    #[inline]
    pub fn wake_threads(&mut self) {
        if self
            .first
            .as_ref()
            .is_some_and(|first| !first.runs_user_code())
            && let Some(waiter) = self.first.take()
        {
            waiter.wake();
        }
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest).into_iter();
            let (futures, threads): (Vec<_>, Vec<_>) = rest.partition(Waiter::runs_user_code);
            threads.into_iter().for_each(Waiter::wake);
            let mut futures = futures.into_iter();
            self.first = self.first.take().or_else(|| futures.next());
            self.rest = futures.collect();
        }
    }

    /// Wakes all: threads, then futures in their order. May run user code, so no lock may be held.
    #[inline]
    pub fn wake_all(mut self) {
        self.wake_threads();
        if let Some(waiter) = self.first {
            waiter.wake();
            self.rest.into_iter().for_each(Waiter::wake);
        }
    }
}

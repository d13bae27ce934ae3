//! The signal that the lease of a job is lost.
//!
//! # Invariants
//! 1. A future that found the signal unset has its waker in the list before the signal takes the list.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::foreign::{drop_quietly, wake};
use sync_shim::{Mutex, Process};

/// Set when the lease is known to be lost. Read by the handler.
#[derive(Clone, Debug)]
pub(crate) struct LostFlag(Arc<Signal>);

#[derive(Debug)]
struct Signal {
    is_set: AtomicBool,
    /// Wakers of the futures that wait, by place.
    waiting: Mutex<Vec<Option<Waker>>>,
}

impl LostFlag {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Signal {
            is_set: AtomicBool::new(false),
            waiting: Mutex::new(Vec::new()),
        }))
    }

    /// Sets the flag and wakes the futures. No lock may be held.
    pub(crate) fn set(&self) {
        self.0.is_set.store(true, Relaxed); // For futures, the lock orders it.
        let waiting = mem::take(&mut *self.0.waiting.lock());
        // USER CODE: the futures' wakers. After the unlock. A panic ends there.
        waiting.into_iter().flatten().for_each(wake);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_set.load(Relaxed) // A hint: the store's answer to a settle decides.
    }
}

/// Future of [`Claimed::lost`](crate::Claimed::lost).
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct LostFuture {
    flag: LostFlag,
    place: Option<usize>,
    /// Its pump renews the lease.
    process: Process,
}

impl LostFuture {
    pub(crate) fn new(flag: &LostFlag, process: Process) -> Self {
        Self {
            flag: flag.clone(),
            place: None,
            process,
        }
    }

    /// Puts the waker into the list, unless the flag is set, which it returns. Leaves the previous waker.
    fn wait_with(&mut self, waker: &mut Option<Waker>) -> bool {
        let mut waiting = self.flag.0.waiting.lock();
        if self.flag.is_set() {
            return true;
        }
        let free = || waiting.iter().position(Option::is_none);
        let place = self.place.or_else(free).unwrap_or(waiting.len());
        if place == waiting.len() {
            waiting.push(None);
        }
        mem::swap(&mut waiting[place], waker);
        self.place = Some(place);
        false
    }
}

impl Future for LostFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.process.is_current() || self.flag.is_set() {
            return Poll::Ready(());
        }
        // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's, and changes nothing.
        let mut waker = Some(context.waker().clone());
        let is_set = self.wait_with(&mut waker);
        // USER CODE: the drop of a waker that is stale or not needed. After the unlock.
        drop_quietly(waker);
        if is_set {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for LostFuture {
    fn drop(&mut self) {
        let Some(place) = self.place.filter(|_| self.process.is_current()) else {
            return;
        };
        // The list is empty after the signal.
        let waker = self
            .flag
            .0
            .waiting
            .lock()
            .get_mut(place)
            .and_then(Option::take);
        // USER CODE: the drop of a waker that was not called.
        drop_quietly(waker);
    }
}

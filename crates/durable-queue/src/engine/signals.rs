//! The events that the holder of a job wants to know: its lease is lost, or a cancel of the job was requested.
//!
//! # Invariants
//! 1. A waiter that found none of its events set is in the list before one of them takes it from the list.
//! 2. A place belongs to its waiter until one of the waiter's events is set. Then another waiter may have it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use sync_shim::atomic::{AtomicU8, Ordering::Relaxed};
use sync_shim::foreign::drop_quietly;
use sync_shim::waiter::{Waiter, WakeList};
use sync_shim::{Clock, Mutex, Parker, Process};

use crate::threads::clock::SharedClock;

/// A set of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Events(u8);

impl Events {
    pub(crate) const NONE: Self = Self(0);
    /// The lease is known to be lost.
    pub(crate) const LOST: Self = Self(1);
    /// The store was asked to cancel the job.
    pub(crate) const CANCELLED: Self = Self(2);

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The events of one job. Set by the pump, read by the handler.
#[derive(Clone, Debug)]
pub(crate) struct Signals(Arc<State>);

#[derive(Debug)]
struct State {
    set: AtomicU8,
    /// The waiters and their events, by place.
    waiting: Mutex<Vec<Option<(Events, Waiter)>>>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self(Arc::new(State {
            set: AtomicU8::new(0),
            waiting: Mutex::new(Vec::new()),
        }))
    }

    /// Sets the events and wakes their waiters. No lock may be held.
    pub(crate) fn set(&self, events: Events) {
        self.0.set.fetch_or(events.0, Relaxed); // For waiters, the lock orders it.
        let mut wakes = WakeList::new();
        for place in &mut *self.0.waiting.lock() {
            if let Some((_, waiter)) = place.take_if(|(wanted, _)| wanted.meets(events)) {
                wakes.push(waiter);
            }
        }
        // USER CODE: the futures' wakers. After the unlock. Panics end there.
        wakes.wake_all();
    }

    /// Returns whether one of the events is set.
    pub(crate) fn has(&self, events: Events) -> bool {
        // A hint: the store's answer to a settle decides.
        Events(self.0.set.load(Relaxed)).meets(events)
    }
}

/// Future of [`Claimed::lost`](crate::Claimed::lost) and [`Claimed::cancelled`](crate::Claimed::cancelled).
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct SignalFuture {
    signals: Signals,
    events: Events,
    place: Option<usize>,
    /// Its pump sets the events.
    process: Process,
}

impl SignalFuture {
    pub(crate) fn new(signals: &Signals, events: Events, process: Process) -> Self {
        Self {
            signals: signals.clone(),
            events,
            place: None,
            process,
        }
    }

    fn is_ready(&self) -> bool {
        !self.process.is_current() || self.signals.has(self.events)
    }

    /// Returns whether an event is set. If not, it will wake `waiter`.
    fn look(&mut self, waiter: Waiter) -> bool {
        let mut waiter = Some((self.events, waiter));
        let is_set = self.wait_with(&mut waiter);
        // USER CODE: the drop of a waker that is stale or not needed. After the unlock.
        drop_quietly(waiter);
        is_set
    }

    /// Puts the waiter into the list, unless an event is set, which it returns. Leaves the previous waiter.
    fn wait_with(&mut self, waiter: &mut Option<(Events, Waiter)>) -> bool {
        let mut waiting = self.signals.0.waiting.lock();
        if self.signals.has(self.events) {
            return true;
        }
        let free = || waiting.iter().position(Option::is_none);
        let place = self.place.or_else(free).unwrap_or(waiting.len());
        if place == waiting.len() {
            waiting.push(None);
        }
        std::mem::swap(&mut waiting[place], waiter);
        self.place = Some(place);
        false
    }

    /// Blocks until an event is set. Returns false if `deadline` passes first.
    pub(crate) fn wait(mut self, clock: &SharedClock, deadline: Option<Instant>) -> bool {
        if self.is_ready() {
            return true;
        }
        let parker = Parker::of_thread();
        while !self.look(Waiter::Thread(parker.clone())) {
            match deadline {
                None => parker.park(),
                Some(when) => {
                    if !clock.park_until(&parker, when) {
                        return self.is_ready();
                    }
                }
            }
        }
        true
    }
}

impl Future for SignalFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's, and changes nothing.
        if self.is_ready() || self.look(Waiter::Task(context.waker().clone())) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for SignalFuture {
    fn drop(&mut self) {
        let Some(place) = self.place.filter(|_| self.process.is_current()) else {
            return;
        };
        let waiter = {
            let mut waiting = self.signals.0.waiting.lock();
            // After the event the place may be another waiter's.
            if self.signals.has(self.events) {
                None
            } else {
                waiting[place].take()
            }
        };
        // USER CODE: the drop of a waker that was not called.
        drop_quietly(waiter);
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::task::Poll::Pending;

    use testkit::CountingWaker;

    use super::*;

    fn poll(future: &mut SignalFuture, waker: &std::task::Waker) -> Poll<()> {
        Pin::new(future).poll(&mut Context::from_waker(waker))
    }

    #[test]
    fn an_event_wakes_only_its_waiters_and_those_of_any_event() {
        let signals = Signals::new();
        let all = [
            Events::LOST,
            Events::CANCELLED,
            Events(Events::LOST.0 | Events::CANCELLED.0),
        ];
        let mut waiters = all.map(|events| {
            let counter = CountingWaker::new();
            let future = SignalFuture::new(&signals, events, Process::current());
            (future, counter)
        });
        for (future, counter) in &mut waiters {
            assert_eq!(poll(future, &counter.waker()), Pending);
        }
        let wakes = |waiters: &[(SignalFuture, CountingWaker); 3]| {
            let counts = waiters.each_ref();
            counts.map(|(_, counter)| counter.wakes())
        };
        signals.set(Events::CANCELLED);
        assert_eq!(wakes(&waiters), [0, 1, 1]);
        assert!(signals.has(Events::CANCELLED) && !signals.has(Events::LOST));
        signals.set(Events::LOST);
        assert_eq!(wakes(&waiters), [1, 1, 1]);
    }

    #[test]
    fn a_future_that_is_dropped_after_its_event_leaves_the_next_waiter_in_its_place() {
        let signals = Signals::new();
        let future = |events| SignalFuture::new(&signals, events, Process::current());
        let (mut lost, mut cancelled) = (future(Events::LOST), future(Events::CANCELLED));
        let counter = CountingWaker::new();
        assert_eq!(poll(&mut lost, std::task::Waker::noop()), Pending);
        signals.set(Events::LOST);
        assert_eq!(poll(&mut cancelled, &counter.waker()), Pending);
        assert_eq!(cancelled.place, lost.place);
        drop(lost);
        signals.set(Events::CANCELLED);
        assert_eq!(counter.wakes(), 1);
    }

    #[test]
    fn a_future_that_is_dropped_before_its_event_leaves_no_waker() {
        let signals = Signals::new();
        let counter = CountingWaker::new();
        for _ in 0..3 {
            let mut future = SignalFuture::new(&signals, Events::CANCELLED, Process::current());
            assert_eq!(poll(&mut future, &counter.waker()), Pending);
        }
        signals.set(Events::CANCELLED);
        assert_eq!(counter.wakes(), 0);
        assert_eq!(signals.0.waiting.lock().len(), 1, "they have had one place");
    }
}

//! Events that threads and futures wait for: an idle pool, the end of a pool, room for one more thread.
//!
//! The sections that cause an event decide when it happens. They set it under the lock that protects the
//! [`Events`], and wake the waiters through a [`WakeList`] after the lock is released.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use sync_shim::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use sync_shim::waiter::{Waiter, WakeList};
use sync_shim::{Clock, Mutex, Parker, ThreadParker};

use crate::foreign::drop_quietly;
use crate::sched::waiters::TicketList;

/// One waiter's one-shot event, as seen by the sections that set it.
// The parker of a thread is not enough: it may hold the token of another wait.
#[derive(Debug)]
struct Event {
    // Read without the lock of the events, so that a wake-up without a reason costs its thread one load.
    is_set: AtomicBool,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    Thread(Parker),
    /// The future's waker, from the first poll until the event is set.
    Future(Mutex<Option<Waker>>),
}

impl Event {
    /// Sets the event. Returns the waiter, which must be woken once no lock is held.
    fn set(&self) -> Option<Waiter> {
        // Before the waker is taken: a poll that stores its waker later looks at the flag again and finds it set.
        self.is_set.store(true, Release); // Pairs with the load in `is_set`.
        match &self.owner {
            Owner::Thread(parker) => Some(Waiter::Thread(parker.clone())),
            Owner::Future(waker) => waker.lock().take().map(Waiter::Task),
        }
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Acquire) // Pairs with the store in `set`.
    }
}

/// The events of all waiters for one condition. Protected by the lock of the sections that set them.
#[derive(Debug)]
pub struct Events(TicketList<Arc<Event>>);

impl Events {
    /// Creates a list without waiters.
    pub const fn new() -> Self {
        Self(TicketList::new())
    }

    /// Whether nobody is waiting.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sets all events and adds their waiters to the wake list.
    pub fn set_all(&mut self, wakes: &mut WakeList) {
        // Taken out: an event is one-shot, and a section that comes later must not wake its owner again.
        for waiter in self.0.take_all().filter_map(|event| event.set()) {
            wakes.push(waiter);
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}

/// One waiter's event, as seen by the waiter.
#[derive(Debug)]
struct Entry {
    event: Arc<Event>,
    /// Position in the list that it was entered into.
    ticket: Option<u64>,
}

impl Entry {
    fn new(owner: Owner) -> Self {
        Self {
            event: Arc::new(Event {
                is_set: AtomicBool::new(false),
                owner,
            }),
            ticket: None,
        }
    }

    fn enter(&mut self, events: &mut Events) {
        debug_assert!(self.ticket.is_none(), "an event is entered once");
        self.ticket = Some(events.0.push(Arc::clone(&self.event)));
    }

    /// Leaves the list, and returns whether the event was set.
    fn leave(&self, events: &mut Events) -> bool {
        // The waiter's own reference outlives this one, so no waker is dropped under the lock.
        let _ours = self.ticket.and_then(|ticket| events.0.remove(ticket));
        // Asked under the lock, so that the answer cannot change until the caller unlocks it.
        self.event.is_set()
    }
}

/// An event that a future waits for.
#[derive(Debug)]
pub struct EventFuture(Entry);

impl EventFuture {
    /// Creates an event for a future.
    #[expect(
        clippy::new_without_default,
        reason = "there is nothing usual about it"
    )]
    pub fn new() -> Self {
        Self(Entry::new(Owner::Future(Mutex::new(None))))
    }

    /// Starts waiting, under the lock of `events`. O(1).
    pub fn enter(&mut self, events: &mut Events) {
        self.0.enter(events);
    }

    /// Returns whether the event is set. If it is not, `waker` is called when it is set.
    pub fn poll(&self, waker: &Waker) -> bool {
        let event = &self.0.event;
        // Before the clone, so that a poll after the event costs no reference to the waker.
        if event.is_set() {
            return true;
        }
        // USER CODE: the waker's clone. Before the lock is taken, and a panic leaves the future as it was.
        let fresh = waker.clone();
        let Owner::Future(slot) = &event.owner else {
            unreachable!("`new` made it a future's")
        };
        // Replaced on each poll, because a future may move to another task between two polls.
        let previous = slot.lock().replace(fresh);
        // USER CODE: the drop of the stale waker.
        drop_quietly(previous);
        // The event may have been set before the section could find the waker. Without a second look this
        // future would never be woken.
        let is_set = event.is_set();
        if is_set {
            // The section that set it may hold the last reference to the event, and would drop the waker under its lock.
            let unneeded = slot.lock().take();
            // USER CODE: the drop of a waker that is not needed.
            drop_quietly(unneeded);
        }
        is_set
    }

    /// Stops waiting, under the lock of `events`, the list that it was entered into. Returns whether the event was
    /// set. O(log n).
    pub fn leave(&self, events: &mut Events) -> bool {
        self.0.leave(events)
    }
}

/// An event that a thread waits for. It owns the thread's parker, so no other wait takes its token.
#[derive(Debug)]
pub struct EventWait {
    entry: Entry,
    parker: ThreadParker,
}

impl EventWait {
    /// Creates an event for the calling thread.
    pub fn of_thread() -> Self {
        let parker = Parker::of_thread();
        Self {
            entry: Entry::new(Owner::Thread(parker.clone())),
            parker,
        }
    }

    /// Starts waiting, under the lock of `events`. O(1).
    pub fn enter(&mut self, events: &mut Events) {
        self.entry.enter(events);
    }

    /// Stops waiting, under the lock of `events`, the list that it was entered into. Returns whether the event was
    /// set. O(log n).
    pub fn leave(&self, events: &mut Events) -> bool {
        self.entry.leave(events)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.entry.event.is_set()
    }

    /// Blocks until the event is set.
    pub fn wait(&self) {
        // A loop, because the parker may return for a token that an earlier wait left behind.
        while !self.is_set() {
            self.parker.park();
        }
    }

    /// Blocks until the event is set (`true`) or the clock reaches the deadline (`false`).
    pub fn wait_until(&self, clock: &dyn Clock, deadline: Option<Instant>) -> bool {
        let Some(when) = deadline else {
            self.wait();
            return true;
        };
        while !self.is_set() {
            // USER CODE: `Clock::park_until`.
            if !clock.park_until(&self.parker, when) {
                // The event may have been set just before the deadline.
                return self.is_set();
            }
        }
        true
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use testkit::{CountingWaker, waker_cloned_by};

    use super::*;

    /// A section sets the event between the poll's two checks and keeps a reference. A waker left in the event would be
    /// dropped by that section, under its lock.
    #[test]
    fn a_poll_that_finds_its_event_set_leaves_no_waker_in_it() {
        let events = Arc::new(Mutex::new(Events::new()));
        let mut future = EventFuture::new();
        future.enter(&mut events.lock());
        let section = Arc::clone(&future.0.event);
        let counter = CountingWaker::new();
        let clones = counter.clone();
        let waker = waker_cloned_by(move || {
            let mut wakes = WakeList::new();
            events.lock().set_all(&mut wakes);
            assert!(wakes.is_empty(), "there was no waker yet");
            clones.waker()
        });
        assert!(future.poll(&waker));
        drop((future, waker));
        assert_eq!((Arc::strong_count(&section), counter.wakers()), (1, 0));
    }
}

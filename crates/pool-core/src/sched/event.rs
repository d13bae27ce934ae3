//! An event that threads and futures wait for: a pool at rest, an end, room for one more thread.
//!
//! Not for: deciding when it has come. That is done under the lock that the events lie under, whose
//! section sets them; what waits is woken by its [`WakeList`] when the lock is free.

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

/// Something that one thread or one future waits for and that comes once: the half of those that
/// set it.
///
/// The thread's parker alone will not do: it may hold the token of another wait.
#[derive(Debug)]
pub struct Event {
    is_set: AtomicBool,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    Thread(Parker),
    /// Its waker, from the first poll until the event is set.
    Future(Mutex<Option<Waker>>),
}

impl Event {
    fn new(owner: Owner) -> Arc<Self> {
        Arc::new(Self {
            is_set: AtomicBool::new(false),
            owner,
        })
    }

    /// Sets all these, and adds what waits for them to the wake list.
    pub fn set_all(events: &mut Vec<Arc<Self>>, wakes: &mut WakeList) {
        for event in events.drain(..) {
            if let Some(waiter) = event.set() {
                wakes.push(waiter);
            }
        }
    }

    /// It has come. What waits is to be woken, once no lock is held.
    fn set(&self) -> Option<Waiter> {
        self.is_set.store(true, Release); // Pairs with the load in `is_set`.
        match &self.owner {
            Owner::Thread(parker) => Some(Waiter::Thread(parker.clone())),
            Owner::Future(waker) => waker.lock().take().map(Waiter::Task),
        }
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Acquire) // Pairs with the store in `set`.
    }

    /// Stops waiting, under the lock of `events`: whether it has come all the same.
    fn leave(self: &Arc<Self>, events: &mut Vec<Arc<Self>>) -> bool {
        events.retain(|other| !Arc::ptr_eq(other, self));
        self.is_set()
    }
}

/// The half of the future that waits.
#[derive(Debug)]
pub struct EventFuture(Arc<Event>);

impl EventFuture {
    /// An event that a future is going to wait for. It is to be added to `events`, which are
    /// [set](Event::set_all) under their lock.
    #[expect(
        clippy::new_without_default,
        reason = "there is nothing usual about it"
    )]
    pub fn new() -> Self {
        Self(Event::new(Owner::Future(Mutex::new(None))))
    }

    /// The half for those that set it.
    pub fn event(&self) -> Arc<Event> {
        Arc::clone(&self.0)
    }

    /// Whether it has come; if not, `waker` is called when it does.
    pub fn poll(&self, waker: &Waker) -> bool {
        if self.0.is_set() {
            return true;
        }
        // Cloned first: a waker's clone is user code.
        let fresh = waker.clone();
        let Owner::Future(slot) = &self.0.owner else {
            unreachable!("`new` made it a future's")
        };
        let previous = slot.lock().replace(fresh);
        drop_quietly(previous); // User code: the lock is free.
        // The event may have been set before it could find the waker.
        self.0.is_set()
    }

    /// Stops waiting, under the lock of `events`: whether it has come all the same.
    pub fn leave(&self, events: &mut Vec<Arc<Event>>) -> bool {
        self.0.leave(events)
    }
}

/// The half of the thread that waits. While it exists no other wait of the thread takes its token.
#[derive(Debug)]
pub struct EventWait {
    event: Arc<Event>,
    parker: ThreadParker,
}

impl EventWait {
    /// The calling thread is going to wait. The event is to be added to `events`, which are
    /// [set](Event::set_all) under their lock.
    pub fn of_thread() -> Self {
        let parker = Parker::of_thread();
        Self {
            event: Event::new(Owner::Thread(parker.clone())),
            parker,
        }
    }

    /// The half for those that set it.
    pub fn event(&self) -> Arc<Event> {
        Arc::clone(&self.event)
    }

    /// Stops waiting, under the lock of `events`: whether it has come all the same.
    pub fn leave(&self, events: &mut Vec<Arc<Event>>) -> bool {
        self.event.leave(events)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.event.is_set()
    }

    /// Blocks until it has come.
    pub fn wait(&self) {
        while !self.is_set() {
            self.parker.park();
        }
    }

    /// Blocks until it has come (`true`) or the clock reaches the deadline.
    pub fn wait_until(&self, clock: &dyn Clock, deadline: Option<Instant>) -> bool {
        let Some(when) = deadline else {
            self.wait();
            return true;
        };
        while !self.is_set() {
            if !clock.park_until(&self.parker, when) {
                return self.is_set();
            }
        }
        true
    }
}

//! An event that threads wait for: a pool at rest, an end, room for one more thread.
//!
//! Not for: deciding when it has come. That is done under the lock that the events lie under, whose
//! section sets them; the threads are woken by its [`WakeList`] when the lock is free.

use std::sync::Arc;
use std::time::Instant;

use sync_shim::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use sync_shim::waiter::WakeList;
use sync_shim::{Clock, Parker, ThreadParker};

/// Something that one thread waits for and that comes once: the half of those that set it.
///
/// The thread's parker alone will not do: it may hold the token of another wait.
#[derive(Debug)]
pub struct Event {
    is_set: AtomicBool,
    parker: Parker,
}

impl Event {
    /// Sets all these, and adds the threads that wait for them to the wake list.
    pub fn set_all(events: &mut Vec<Arc<Self>>, wakes: &mut WakeList) {
        for event in events.drain(..) {
            wakes.push_thread(event.set());
        }
    }

    /// It has come. The thread that waits is to be woken, once no lock is held.
    fn set(&self) -> Parker {
        self.is_set.store(true, Release); // Pairs with the load in `EventWait::is_set`.
        self.parker.clone()
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
            event: Arc::new(Event {
                is_set: AtomicBool::new(false),
                parker: parker.clone(),
            }),
            parker,
        }
    }

    /// The half for those that set it.
    pub fn event(&self) -> Arc<Event> {
        Arc::clone(&self.event)
    }

    /// Stops waiting, under the lock of `events`: whether it has come all the same.
    pub fn leave(&self, events: &mut Vec<Arc<Event>>) -> bool {
        events.retain(|other| !Arc::ptr_eq(other, &self.event));
        self.is_set()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.event.is_set.load(Acquire) // Pairs with the store in `Event::set`.
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

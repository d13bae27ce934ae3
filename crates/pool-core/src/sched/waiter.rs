//! Who waits, and how it is woken: a thread or a task of an async runtime, and an event that is
//! waited for.
//!
//! Not for: deciding who is woken. That is done under the pool's lock, which fills a [`WakeList`];
//! the list is worked off when the lock is free.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use sync_shim::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use sync_shim::{Clock, Parker, ThreadParker};

use crate::foreign::wake;

/// Who is to be woken.
#[derive(Debug)]
pub enum Waiter {
    /// A thread that sleeps on this.
    Thread(Parker),
    /// A future that was polled. Its waker is user code: it is cloned, called and dropped with no
    /// lock held.
    Task(Waker),
}

impl Waiter {
    /// Wakes it. A panic of its waker ends here.
    pub fn wake(self) {
        match self {
            Self::Thread(parker) => parker.unpark(),
            Self::Task(waker) => wake(waker),
        }
    }
}

/// Those that a section has decided to wake. Threads come first: waking one runs no user code.
#[derive(Debug)]
pub struct WakeList {
    threads: Few<Parker>,
    tasks: Few<Waker>,
}

impl WakeList {
    /// An empty one. It allocates nothing for the first thread and the first task.
    pub const EMPTY: Self = Self {
        threads: Few::EMPTY,
        tasks: Few::EMPTY,
    };

    /// Adds a waiter.
    pub fn push(&mut self, waiter: Waiter) {
        match waiter {
            Waiter::Thread(parker) => self.push_thread(parker),
            Waiter::Task(waker) => self.tasks.push(waker),
        }
    }

    pub(crate) fn push_thread(&mut self, parker: Parker) {
        self.threads.push(parker);
    }

    /// Sets all these events, and adds the threads that wait for them.
    pub fn set_all(&mut self, events: &mut Vec<Arc<Event>>) {
        for event in events.drain(..) {
            self.push_thread(event.set());
        }
    }

    /// Nothing is to be woken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.tasks.is_empty()
    }

    /// Whether a waker is to be called, which is user code.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Wakes the threads. Runs no user code.
    pub fn wake_threads(&mut self) {
        for thread in self.threads.take() {
            thread.unpark();
        }
    }

    /// Calls the wakers, which are user code: no lock may be held.
    pub fn wake_tasks(&mut self) {
        self.tasks.take().for_each(wake);
    }
}

/// A list that mostly holds one entry or none, and then allocates nothing.
#[derive(Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    #[expect(
        clippy::box_collection,
        reason = "one word: each section makes such lists anew"
    )]
    rest: Option<Box<Vec<T>>>,
}

impl<T> Few<T> {
    pub(crate) const EMPTY: Self = Self {
        first: None,
        rest: None,
    };

    pub(crate) fn push(&mut self, entry: T) {
        if self.first.is_none() {
            self.first = Some(entry);
        } else {
            self.rest.get_or_insert_default().push(entry);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        let rest = self.rest.take().map(|rest| *rest);
        let first = self.first.take();
        first.into_iter().chain(rest.into_iter().flatten())
    }
}

/// Something that one thread waits for and that comes once: the half of those that set it.
///
/// The thread's parker alone will not do: it may hold the token of another wait.
#[derive(Debug)]
pub struct Event {
    is_set: AtomicBool,
    parker: Parker,
}

impl Event {
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
    /// [set](WakeList::set_all) under their lock.
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

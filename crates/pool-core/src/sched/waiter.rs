//! Who waits, and how it is woken: a thread or a task of an async runtime, and an event that either
//! waits for.
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
use sync_shim::{Clock, Mutex, Parker, ThreadParker};

use crate::foreign::{discard, drop_quietly, guarded};

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

/// Calls a waker, which is user code.
pub(crate) fn wake(waker: Waker) {
    if let Err(payload) = guarded(|| waker.wake()) {
        discard(payload);
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

    /// Sets all these events, and adds those that wait for them.
    pub fn set_all(&mut self, events: &mut Vec<Arc<Event>>) {
        for event in events.drain(..) {
            if let Some(waiter) = event.set() {
                self.push(waiter);
            }
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
    #[inline]
    pub fn wake_threads(&mut self) {
        if !self.threads.is_empty() {
            self.threads.take().for_each(|thread| thread.unpark());
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

    /// It has come. Who waits is to be woken, once no lock is held.
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
    /// [set](WakeList::set_all) under their lock.
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
        let stale = slot.lock().replace(fresh);
        drop_quietly(stale); // User code: the lock is free.
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
    /// [set](WakeList::set_all) under their lock.
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

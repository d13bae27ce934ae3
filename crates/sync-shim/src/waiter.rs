//! Waiters (threads, and tasks of an async runtime) and the wake list of a section: the waiters to
//! wake after the lock is released.
//!
//! Not for: deciding which waiter is woken or in which order waiters are queued. A section under a
//! lock decides; the waiters that it dequeues go into its [`WakeList`], which is processed after
//! the section.
//!
//! # Guarantees
//! 1. Pushing runs no user code and wakes nothing, so it may be done under a lock.
//! 2. Waiters that run no user code are woken before the first waker that does: a waker may block
//!    until a thread of the same list has done something.
//! 3. A list of at most one thread and one task allocates nothing.

use std::task::Waker;

use crate::Parker;
use crate::foreign::wake;

/// A waiter to wake: a sleeping thread, or a pending future.
#[derive(Debug)]
#[doc(alias = "Notify")]
pub enum Waiter {
    /// A thread that sleeps on this parker.
    Thread(Parker),
    /// A task, by the waker of its last poll. Cloning, waking and dropping it is user code, so no
    /// lock may be held.
    Task(Waker),
}

impl Waiter {
    /// Wakes the waiter. May run user code, so no lock may be held. A panic of a waker is caught.
    #[doc(alias = "notify")]
    pub fn wake(self) {
        match self {
            Self::Thread(parker) => parker.unpark(),
            Self::Task(waker) => wake(waker),
        }
    }
}

/// The waiters that a section has dequeued, to be woken after the lock is released.
///
/// Four words, of which an empty list reads and writes three: each section of a busy pool creates
/// one.
#[derive(Debug, Default)]
#[must_use = "a waiter that is dequeued and not woken sleeps for ever"]
pub struct WakeList {
    thread: Option<Parker>,
    task: Option<Waker>,
    /// All waiters but the first thread and the first task. Never empty.
    more: Option<Box<More>>,
}

#[derive(Debug, Default)]
struct More {
    threads: Vec<Parker>,
    internal: Vec<Waker>,
    tasks: Vec<Waker>,
}

impl WakeList {
    /// Creates an empty list.
    #[inline]
    pub const fn new() -> Self {
        Self {
            thread: None,
            task: None,
            more: None,
        }
    }

    /// Returns whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.thread.is_none() && self.task.is_none() && self.more.is_none()
    }

    /// Returns whether the list has wakers that are user code.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        self.task.is_some()
    }

    /// Appends a waiter.
    #[inline]
    pub fn push(&mut self, waiter: Waiter) {
        match waiter {
            Waiter::Thread(parker) => self.push_thread(parker),
            Waiter::Task(waker) => self.push_task(waker),
        }
    }

    /// Appends a thread.
    #[inline]
    pub fn push_thread(&mut self, parker: Parker) {
        if self.thread.is_none() {
            self.thread = Some(parker);
        } else {
            self.more().threads.push(parker);
        }
    }

    /// Appends an internal waiter of this workspace, by a waker that runs no user code and never
    /// blocks. It is woken together with the threads.
    pub fn push_internal(&mut self, waker: Waker) {
        self.more().internal.push(waker);
    }

    #[inline]
    fn push_task(&mut self, waker: Waker) {
        if self.task.is_none() {
            self.task = Some(waker);
        } else {
            self.more().tasks.push(waker);
        }
    }

    #[cold]
    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Appends another list.
    pub fn append(&mut self, later: Self) {
        let Self { thread, task, more } = later;
        let More {
            threads,
            internal,
            tasks,
        } = more.map_or_else(More::default, |more| *more);
        for parker in thread.into_iter().chain(threads) {
            self.push_thread(parker);
        }
        for waker in internal {
            self.push_internal(waker);
        }
        for waker in task.into_iter().chain(tasks) {
            self.push_task(waker);
        }
    }

    /// Wakes the threads and internal waiters, and keeps the tasks.
    #[inline]
    pub fn wake_threads(&mut self) {
        if let Some(parker) = self.thread.take() {
            parker.unpark();
        }
        if self.more.is_some() {
            self.wake_more_threads();
        }
    }

    #[cold]
    fn wake_more_threads(&mut self) {
        let Some(mut more) = self.more.take() else {
            return;
        };
        for parker in more.threads.drain(..) {
            parker.unpark();
        }
        more.internal.drain(..).for_each(wake);
        if !more.tasks.is_empty() {
            self.more = Some(more);
        }
    }

    /// Wakes all: threads, then tasks in their order. May run user code, so no lock may be held.
    pub fn wake_all(&mut self) {
        self.wake_threads();
        let more = self.more.take();
        if let Some(waker) = self.task.take() {
            wake(waker);
        }
        if let Some(more) = more {
            more.tasks.into_iter().for_each(wake);
        }
    }
}

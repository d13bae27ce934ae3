//! What a task leaves for its handle: one value, one waiter, and whether there is a handle still.
//!
//! Not for: locking, or deciding when the value may be seen. A [`Promise`] is plain data under its
//! owner's lock, so what it gives back (values, wakers) is dropped by the owner when that is free.
//!
//! # Invariants
//! 1. The value goes `Pending`, then `LaidAside`, then `Kept`, then `Taken`; it may leave some out,
//!    and never goes back.
//! 2. The handle sees it from `Kept` on.
//! 3. What is detached has neither waiter nor listener.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use sync_shim::waiter::Waiter;
use sync_shim::{Clock, Parker};

use crate::error::JoinError;
use crate::task::cell::SpawnCell;

/// A task's value, or why there is none.
pub type Joined<R> = Result<R, JoinError>;

/// One value for one handle.
#[derive(Debug)]
pub struct Promise<R> {
    value: Value<R>,
    handle: Handle,
}

#[derive(Debug)]
enum Value<R> {
    Pending,
    /// It is there, and the figures do not show the end yet.
    LaidAside(Joined<R>),
    Kept(Joined<R>),
    Taken,
}

enum Handle {
    /// There is one.
    Held,
    /// There is one, and it is awaited.
    Awaited(Waiter),
    /// There is one, and this listener is told of the value, under this number.
    Listened(Arc<dyn Listener>, u32),
    /// There is none: the value is dropped where it arises.
    Detached,
}

/// A part of this crate that takes the outcomes of many tasks, in place of their handles.
pub trait Listener: Send + Sync {
    /// The task of that number, in that cell, has ended, and room and figures show it: its outcome can be
    /// taken. Does not unwind, and runs no user code: what is to be run for it comes back as a waker.
    fn ended(self: Arc<Self>, number: u32, is_error: bool, cell: &SpawnCell) -> Option<Waker>;
}

/// What is to be done for a task's end, once its lock is free.
pub(crate) enum End {
    Wake(Waiter),
    Tell(Arc<dyn Listener>, u32, bool),
}

/// What a handle finds, and a waiter that is not needed: to be dropped when the lock is free.
pub type Look<R> = (Option<Joined<R>>, Option<Waiter>);

impl<R> Promise<R> {
    /// Nothing is there yet, and there is a handle.
    pub fn new() -> Self {
        Self {
            value: Value::Pending,
            handle: Handle::Held,
        }
    }

    /// Takes the value, or leaves a waiter to be woken when it is there.
    pub fn take_or_wait(&mut self, waiter: Option<Waiter>) -> Look<R> {
        match mem::replace(&mut self.value, Value::Taken) {
            Value::Kept(value) => (Some(value), waiter),
            Value::Taken => (Some(Err(JoinError::Taken)), waiter),
            pending => {
                self.value = pending;
                let handle = waiter.map_or(Handle::Held, Handle::Awaited);
                (None, self.set_handle(handle))
            }
        }
    }

    /// The value is there, to be [kept](Promise::keep) once the figures show the end. It comes back
    /// if there is no handle.
    pub fn lay_aside(&mut self, value: Joined<R>) -> Option<Joined<R>> {
        if self.is_detached() {
            self.value = Value::Taken;
            return Some(value);
        }
        self.value = Value::LaidAside(value);
        None
    }

    /// The value is there, and the figures show the end. Where there is no handle its owner
    /// [takes](Promise::take_value) it out again.
    pub fn fulfil(&mut self, value: Joined<R>) {
        self.value = Value::Kept(value);
    }

    /// The figures show the end: now the handle may see the value that was laid aside. `false` if
    /// the handle has gone since.
    pub fn keep(&mut self) -> bool {
        match mem::replace(&mut self.value, Value::Taken) {
            Value::LaidAside(value) => {
                self.value = Value::Kept(value);
                true
            }
            Value::Taken => false,
            Value::Pending | Value::Kept(_) => {
                unreachable!("a promise is kept once, after its value was laid aside")
            }
        }
    }

    /// Who awaits it, to be woken now that it is kept.
    pub fn take_waiter(&mut self) -> Option<Waiter> {
        if self.is_detached() {
            return None;
        }
        self.set_handle(Handle::Held)
    }

    /// What is to be done now that it is kept.
    pub(crate) fn take_end(&mut self) -> Option<End> {
        if self.is_detached() {
            return None;
        }
        match mem::replace(&mut self.handle, Handle::Held) {
            Handle::Awaited(waiter) => Some(End::Wake(waiter)),
            Handle::Listened(listener, number) => {
                let is_error = matches!(self.value, Value::Kept(Err(_)));
                Some(End::Tell(listener, number, is_error))
            }
            Handle::Held | Handle::Detached => None,
        }
    }

    /// Has a listener told when the value is there; or says of one that is whether it is an error. There is
    /// no waiter.
    pub(crate) fn listen(&mut self, listener: Arc<dyn Listener>, number: u32) -> Option<bool> {
        if let Value::Kept(value) = &self.value {
            return Some(value.is_err());
        }
        self.handle = Handle::Listened(listener, number);
        None
    }

    /// Whether a listener is still to be told.
    pub(crate) fn is_listened(&self) -> bool {
        matches!(self.handle, Handle::Listened(..))
    }

    /// The value that can be seen, where it lies.
    pub(crate) fn kept(&self) -> Option<&Joined<R>> {
        match &self.value {
            Value::Kept(value) => Some(value),
            Value::Pending | Value::LaidAside(_) | Value::Taken => None,
        }
    }

    /// Who awaits it, if that is a thread: to wake one runs no user code.
    pub fn take_thread(&mut self) -> Option<Parker> {
        match mem::replace(&mut self.handle, Handle::Held) {
            Handle::Awaited(Waiter::Thread(parker)) => Some(parker),
            other => {
                self.handle = other;
                None
            }
        }
    }

    /// Whether the value can be seen, or was taken.
    pub fn is_kept(&self) -> bool {
        matches!(self.value, Value::Kept(_) | Value::Taken)
    }

    /// Whether a waker awaits it, which is user code.
    pub fn has_waker(&self) -> bool {
        matches!(self.handle, Handle::Awaited(Waiter::Task(_)))
    }

    /// Whether there is no handle any more.
    pub fn is_detached(&self) -> bool {
        matches!(self.handle, Handle::Detached)
    }

    /// The handle is gone. The value comes back, if it is there.
    pub fn detach(&mut self) -> Look<R> {
        let stale = self.set_handle(Handle::Detached);
        (self.take_value(), stale)
    }

    /// The value that was laid aside or kept.
    pub fn take_value(&mut self) -> Option<Joined<R>> {
        match mem::replace(&mut self.value, Value::Taken) {
            Value::Kept(value) | Value::LaidAside(value) => Some(value),
            pending => {
                self.value = pending;
                None
            }
        }
    }

    fn set_handle(&mut self, handle: Handle) -> Option<Waiter> {
        match mem::replace(&mut self.handle, handle) {
            Handle::Awaited(waiter) => Some(waiter),
            // (A listener's owner keeps it beside the handles.)
            Handle::Held | Handle::Listened(..) | Handle::Detached => None,
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "Held",
            Self::Awaited(_) => "Awaited",
            Self::Listened(..) => "Listened",
            Self::Detached => "Detached",
        })
    }
}

impl<R> Default for Promise<R> {
    fn default() -> Self {
        Self::new()
    }
}

/// The part of a handle that waits: what it does to the promise, under that one's lock.
pub trait Promised<R> {
    /// Takes the value, or has `waiter` woken when it is there. A waiter that is not needed is
    /// dropped with no lock held.
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<R>>;
}

/// Blocks until the value is there. `None` if the time is up first.
pub fn join<R>(
    promised: &(impl Promised<R> + ?Sized),
    clock: &dyn Clock,
    deadline: Option<Instant>,
) -> Option<Joined<R>> {
    let parker = Parker::of_thread();
    loop {
        let waiter = Waiter::Thread(parker.clone());
        if let Some(value) = promised.take_or_wait(Some(waiter)) {
            return Some(value);
        }
        match deadline {
            None => parker.park(),
            Some(when) => {
                // USER CODE: `Clock::park_until`.
                if !clock.park_until(&parker, when) {
                    return promised.take_or_wait(None);
                }
            }
        }
    }
}

/// Takes the value if it is there; if not, the task that polls is woken when it is.
pub fn poll<R>(promised: &(impl Promised<R> + ?Sized), context: &Context<'_>) -> Poll<Joined<R>> {
    // Cloned first: a waker's clone is user code.
    // USER CODE: the waker's clone, before the lock. A panic leaves the handle as it was.
    let waiter = Waiter::Task(context.waker().clone());
    let value = promised.take_or_wait(Some(waiter));
    value.map_or(Poll::Pending, Poll::Ready)
}

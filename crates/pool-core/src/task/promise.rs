//! The shared state of a task and its handle: one value, one waiter, and whether the handle still exists.
//!
//! A [`Promise`] is plain data. Its owner protects it with a lock and decides when the value becomes visible. Returned
//! values and wakers are dropped by the owner after the lock is released.
//!
//! # Invariants
//! 1. The value goes through `Pending`, `LaidAside`, `Kept` and `Taken` in this order. It may skip states, and never goes
//!    back.
//! 2. The handle sees it from `Kept` on.
//! 3. A detached promise has neither a waiter nor a listener.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use sync_shim::waiter::Waiter;
use sync_shim::{Clock, Parker};

use crate::error::JoinError;
use crate::task::cell::SpawnCell;

/// The value of a task, or the reason why there is none.
pub type Joined<R> = Result<R, JoinError>;

/// A one-shot value for one handle.
#[derive(Debug)]
pub struct Promise<R> {
    value: Value<R>,
    handle: Handle,
}

#[derive(Debug)]
enum Value<R> {
    Pending,
    /// The value exists, and the end of the task has not been counted.
    LaidAside(Joined<R>),
    Kept(Joined<R>),
    Taken,
}

enum Handle {
    /// The handle exists.
    Held,
    /// The handle exists, and this waiter waits for the value.
    Awaited(Waiter),
    /// The handle exists, and this listener is notified of the value, under this number.
    Listened(Arc<dyn Listener>, u32),
    /// The handle is gone: the value is dropped when it arises.
    Detached,
}

/// A receiver for the outcomes of many tasks, instead of their handles.
pub trait Listener: Send + Sync {
    /// Called when the task with that number, in that cell, has ended and was counted, so its outcome can be taken. Must not
    /// unwind or run user code: a waker to call is returned.
    fn ended(self: Arc<Self>, number: u32, is_error: bool, cell: &SpawnCell) -> Option<Waker>;
}

/// Notification of a task's end, to be made after its lock is released.
pub(crate) enum End {
    Wake(Waiter),
    Tell(Arc<dyn Listener>, u32, bool),
}

/// The value, if it is there, and a waiter to drop after the lock is released.
pub(crate) type Look<R> = (Option<Joined<R>>, Option<Waiter>);

impl<R> Promise<R> {
    /// Creates a promise without a value, whose handle exists.
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
            // A future that is polled after its end must not wait for ever.
            Value::Taken => (Some(Err(JoinError::Taken)), waiter),
            pending => {
                self.value = pending;
                let handle = waiter.map_or(Handle::Held, Handle::Awaited);
                (None, self.set_handle(handle))
            }
        }
    }

    /// Stores the value, to be [kept](Promise::keep) after the end of the task was counted. Returns it if there is no handle.
    pub fn lay_aside(&mut self, value: Joined<R>) -> Option<Joined<R>> {
        if self.is_detached() {
            // Returned, because the caller holds a lock and the drop of a value is user code that must run after it.
            self.value = Value::Taken;
            return Some(value);
        }
        self.value = Value::LaidAside(value);
        None
    }

    /// Stores and keeps the value, because the end of the task was counted. If there is no handle the owner
    /// [takes](Promise::take_value) it out again.
    pub fn fulfil(&mut self, value: Joined<R>) {
        self.value = Value::Kept(value);
    }

    /// Makes a value that was laid aside visible, after the end of the task was counted. Returns `false` if the handle has
    /// gone since.
    pub fn keep(&mut self) -> bool {
        match mem::replace(&mut self.value, Value::Taken) {
            Value::LaidAside(value) => {
                self.value = Value::Kept(value);
                true
            }
            // The handle was dropped after the value had been laid aside, and took it along.
            Value::Taken => false,
            Value::Pending | Value::Kept(_) => {
                unreachable!("a promise is kept once, after its value was laid aside")
            }
        }
    }

    /// Takes the waiter, to be woken after the value was kept.
    pub fn take_waiter(&mut self) -> Option<Waiter> {
        if self.is_detached() {
            return None;
        }
        self.set_handle(Handle::Held)
    }

    /// Takes the notification to be made after the value was kept.
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

    /// Registers a listener. If the value is there, returns whether it is an error instead. There must be no waiter.
    pub(crate) fn listen(&mut self, listener: Arc<dyn Listener>, number: u32) -> Option<bool> {
        if let Value::Kept(value) = &self.value {
            return Some(value.is_err());
        }
        self.handle = Handle::Listened(listener, number);
        None
    }

    /// Whether a listener has not been notified yet.
    pub(crate) fn is_listened(&self) -> bool {
        matches!(self.handle, Handle::Listened(..))
    }

    /// Returns the visible value, in place.
    pub(crate) fn kept(&self) -> Option<&Joined<R>> {
        match &self.value {
            Value::Kept(value) => Some(value),
            Value::Pending | Value::LaidAside(_) | Value::Taken => None,
        }
    }

    /// Takes the waiter if it is a thread: waking one runs no user code.
    pub fn take_thread(&mut self) -> Option<Parker> {
        match mem::replace(&mut self.handle, Handle::Held) {
            Handle::Awaited(Waiter::Thread(parker)) => Some(parker),
            other => {
                // Put back: a waker is user code, which must not be called here.
                self.handle = other;
                None
            }
        }
    }

    /// Whether the value is visible, or was taken.
    pub fn is_kept(&self) -> bool {
        matches!(self.value, Value::Kept(_) | Value::Taken)
    }

    /// Whether a thread or a future waits for the value.
    pub fn is_awaited(&self) -> bool {
        matches!(self.handle, Handle::Awaited(_))
    }

    /// Whether a waker, which is user code, waits for the value.
    pub fn has_waker(&self) -> bool {
        match self.handle {
            Handle::Awaited(Waiter::Task(_)) => true,
            Handle::Awaited(Waiter::Thread(_))
            | Handle::Held
            | Handle::Listened(..)
            | Handle::Detached => false,
        }
    }

    /// Whether the handle is gone.
    pub fn is_detached(&self) -> bool {
        matches!(self.handle, Handle::Detached)
    }

    /// Removes the handle. Returns the value, if it is there.
    pub fn detach(&mut self) -> Look<R> {
        let stale = self.set_handle(Handle::Detached);
        (self.take_value(), stale)
    }

    /// Takes the value that was laid aside or kept.
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
            // The owner of a listener keeps it in addition to the handles, so this is not its last drop.
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

/// The waiting part of a handle, which locks the promise.
pub trait Promised<R> {
    /// Takes the value, or registers `waiter` to be woken when it is there. A `waiter` that is not needed is dropped with no
    /// lock held.
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<R>>;
}

/// Blocks until the value is there. Returns `None` if the deadline passes first.
pub fn join<R>(
    promised: &(impl Promised<R> + ?Sized),
    clock: &dyn Clock,
    deadline: Option<Instant>,
) -> Option<Joined<R>> {
    let parker = Parker::of_thread();
    // A loop, because the parker may hold a token that was meant for an earlier wait.
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
                    // The value may have come just before the deadline. This look also removes the waiter, which
                    // would keep a parker that nobody waits on.
                    return promised.take_or_wait(None);
                }
            }
        }
    }
}

/// Takes the value if it is there. Otherwise registers the polling task's waker.
pub fn poll<R>(promised: &(impl Promised<R> + ?Sized), context: &Context<'_>) -> Poll<Joined<R>> {
    // USER CODE: the waker's clone. Before the lock is taken, and a panic leaves the handle as it was.
    let waiter = Waiter::Task(context.waker().clone());
    let value = promised.take_or_wait(Some(waiter));
    value.map_or(Poll::Pending, Poll::Ready)
}

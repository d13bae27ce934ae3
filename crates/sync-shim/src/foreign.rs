//! Calling user code: tasks, hooks, wakers, destructors.
//!
//! Every call out of a pool or a queue goes through this module, with no lock held, so that a panic
//! in user code leaves counts exact and the threads of the workspace alive. In debug builds
//! [`guarded`] panics if the thread holds a lock that is marked with [`Held`].

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// The payload of a panic.
pub type Payload = Box<dyn Any + Send>;

/// Number of payloads with panicking destructors that are dropped in a row before the next one is
/// leaked.
const NESTED_PAYLOADS: usize = 8;

#[cfg(all(debug_assertions, not(anthill_loom)))]
crate::thread_locals! {
    static HELD: std::cell::Cell<usize> = std::cell::Cell::new(0);
}

/// Part of a lock's guard: marks the lock as held by this thread, in debug builds.
#[derive(Debug)]
#[non_exhaustive]
pub struct Held;

impl Held {
    /// Marks a lock as held until the mark is dropped, on the same thread.
    #[inline]
    #[expect(clippy::new_without_default, reason = "it counts")]
    pub fn new() -> Self {
        #[cfg(all(debug_assertions, not(anthill_loom)))]
        HELD.set(HELD.get() + 1);
        Self
    }
}

#[cfg(all(debug_assertions, not(anthill_loom)))]
impl Drop for Held {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

/// Runs user code and catches its panic.
///
/// # Panics
/// In debug builds, if the thread holds a lock that is marked with [`Held`].
///
/// # Errors
/// The panic's payload.
pub fn guarded<R>(call: impl FnOnce() -> R) -> Result<R, Payload> {
    #[cfg(all(debug_assertions, not(anthill_loom)))]
    assert_eq!(HELD.get(), 0, "user code runs under a lock");
    // Unwind safety: state that the closure shares with a pool or queue is accessed only under a
    // lock that is not held here; state that it shares with its owner is the owner's
    // responsibility.
    catch_unwind(AssertUnwindSafe(call))
}

/// Drops a user's value. Returns whether its destructor panicked.
pub fn drop_quietly<T>(value: T) -> bool {
    match guarded(|| drop(value)) {
        Ok(()) => false,
        Err(payload) => {
            discard(payload);
            true
        }
    }
}

/// Calls a waker and drops it. Catches its panic.
#[inline(never)]
pub fn wake(waker: Waker) {
    // USER CODE: a waker. A panic ends here, and its payload is dropped with the same care.
    if let Err(payload) = guarded(|| waker.wake()) {
        discard(payload);
    }
}

/// Drops a payload, whose destructor may panic with another payload, and so on.
#[inline(never)]
pub fn discard(mut payload: Payload) {
    for _ in 0..NESTED_PAYLOADS {
        match guarded(|| drop(payload)) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    mem::forget(payload);
}

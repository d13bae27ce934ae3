//! Calling user code: tasks, hooks, wakers, destructors.
//!
//! Every call out of a pool or a queue goes through this module, with no lock held, so that a panic
//! in user code leaves counts exact and the threads of the workspace alive.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// The payload of a panic.
pub type Payload = Box<dyn Any + Send>;

/// Number of payloads with panicking destructors that are dropped in a row before the next one is
/// leaked.
const NESTED_PAYLOADS: usize = 8;

/// Runs user code and catches its panic.
///
/// # Errors
/// The panic's payload.
pub fn guarded<R>(call: impl FnOnce() -> R) -> Result<R, Payload> {
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

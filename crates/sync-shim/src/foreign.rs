//! Calling user code: tasks, hooks, wakers, destructors.
//!
//! Every call out of a pool or a queue goes through here, with no lock held, so that a panic in
//! user code leaves counts exact and the threads of the workspace alive.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// What a panic carries.
pub type Payload = Box<dyn Any + Send>;

/// How many payloads whose own destructors panic are dropped in a row before the next one is
/// leaked.
const NESTED_PAYLOADS: usize = 8;

/// Runs user code and catches its panic.
///
/// # Errors
/// What it panicked with.
pub fn guarded<R>(call: impl FnOnce() -> R) -> Result<R, Payload> {
    // Unwind safety: what the closure shares with a pool or queue is only reached under a lock that
    // is not held here; what it shares with its owner is the owner's affair.
    catch_unwind(AssertUnwindSafe(call))
}

/// Drops a user's value. Whether that panicked is the answer.
pub fn drop_quietly<T>(value: T) -> bool {
    match guarded(|| drop(value)) {
        Ok(()) => false,
        Err(payload) => {
            discard(payload);
            true
        }
    }
}

/// Calls a waker and drops it. Its panic ends here.
pub fn wake(waker: Waker) {
    // USER CODE: a waker. A panic ends here, and its payload is dropped with the same care.
    if let Err(payload) = guarded(|| waker.wake()) {
        discard(payload);
    }
}

/// Drops a payload, whose destructor may panic with another, whose destructor may panic...
pub fn discard(mut payload: Payload) {
    for _ in 0..NESTED_PAYLOADS {
        match guarded(|| drop(payload)) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    mem::forget(payload);
}

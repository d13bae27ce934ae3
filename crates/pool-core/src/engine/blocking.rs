//! Declared blocking: a task that blocks lets the pool have another worker meanwhile.
//!
//! The pool behaves as if its capacity were one higher, up to `max_compensation`. The sections are those of a change
//! of the capacity (`sched/state/blocking.rs`, steps B1 and B2 of `PROTOCOL.md`). When the task continues any excess
//! worker may end, not only the additional one.

use std::panic::resume_unwind;
use std::sync::Arc;

use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::foreign::{drop_quietly, guarded};
use crate::sched::state::State;
use crate::task::current::{self, Compensate};

impl<R: Runner> Compensate for Core<R> {
    fn begin_blocking(self: Arc<Self>) -> bool {
        let begins = self.section(State::begin_blocking);
        drop_quietly(self); // Perhaps the last reference, at the end of a thread, where a panic must not escape.
        begins
    }

    fn end_blocking(self: Arc<Self>) {
        self.section(State::end_blocking);
        drop_quietly(self); // As above.
    }
}

/// Runs `block`, a closure that waits for a long time: for a disk, a server, a channel, or another task that is queued
/// behind this one. In a task of a pool with [`max_compensation`](crate::Builder::max_compensation), the pool may have
/// one more worker, and one more accepted task, meanwhile.
///
/// The pool behaves as if its capacity were raised by one and lowered again afterwards. A waiting submitter may get the
/// room, and a worker may be started for a queued task. When `block` returns, an idle excess worker ends at once;
/// otherwise the first excess worker ends after its task.
///
/// `blocking` only runs `block` on a thread that is not a worker, in a pool without `max_compensation` (the default),
/// inside another `blocking`, and while `max_compensation` other tasks are blocking. The reported capacity and `free`
/// do not change.
///
/// ```
/// use pool_core::Pool;
/// use std::sync::mpsc;
///
/// let pool = Pool::builder().capacity(1).max_compensation(1).build()?;
/// let (sender, receiver) = mpsc::channel();
/// let waits = pool.spawn(move || pool_core::blocking(|| receiver.recv()))?;
/// pool.submit(move || sender.send(7))?; // The only worker waits for it.
/// assert_eq!(waits.join()??, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # When not to use it
/// For waits of microseconds, because a thread may be started for each of them. If all tasks block all the time, raise
/// the [capacity](crate::Builder::capacity) instead.
///
/// # Panics
/// Resumes a panic of `block`, after the additional worker has been given back.
///
/// # Cost
/// Two sections of the pool's lock. Their effects run in this call: wakers of futures that got the room, and the gate
/// of a thread that is started.
///
/// Modelled on Java's `ForkJoinPool.managedBlock`.
#[doc(alias = "managedBlock")]
#[doc(alias = "ManagedBlocker")]
#[doc(alias = "block_in_place")]
pub fn blocking<T>(block: impl FnOnce() -> T) -> T {
    let Some(worker) = current::worker() else {
        return block();
    };
    let Some(pool) = worker.start_blocking() else {
        return block();
    };
    if !Arc::clone(&pool).begin_blocking() {
        worker.stop_blocking();
        drop_quietly(pool); // As in `begin_blocking`: a panic must not escape before `block` has run.
        return block();
    }
    let result = guarded(block);
    pool.end_blocking();
    worker.stop_blocking();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

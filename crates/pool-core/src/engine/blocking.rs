//! A task that blocks says so, and another worker may be there meanwhile.
//!
//! While it blocks, its pool is as if tuned up by one worker, within a limit of its own
//! (`max_compensation`): the sections are a tuning's (`sched/state/blocking.rs`, steps B1 and B2 of
//! `PROTOCOL.md`). Not for: which worker leaves at the return; any excess one does.

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
        drop_quietly(self); // Perhaps the last reference, in what a worker's thread does at its end.
        begins
    }

    fn end_blocking(self: Arc<Self>) {
        self.section(State::end_blocking);
        drop_quietly(self); // As above.
    }
}

/// Runs `block`, which waits for something for long: a disk, a server, a channel, another task that is
/// queued behind this one. In a task of a pool with
/// [`max_compensation`](crate::Builder::max_compensation) the pool may have one worker, and one accepted
/// task, more meanwhile.
///
/// It is as if the pool were tuned up by one, and back again after it: who waits for room may get it, a
/// queued task may have a worker started for it, and at the return an idle worker that is one too many
/// ends at once, else the first one to end its task. While as many tasks as the limit says block so
/// already, it only runs `block`; so it does on a thread of no pool, in a pool without such a limit (the
/// default), and inside another `blocking`. What the pool shows as its capacity, and `free`, stay as
/// they are.
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
/// When not to use it: for waits of microseconds, since a thread may be started for each; and where all
/// tasks block all the time, a larger [capacity](crate::Builder::capacity) says the same.
///
/// A panic of `block` goes on through it, and the worker is given back first. Costs two sections of the
/// pool's lock, and runs what they free in this call: wakers of futures that got the room, the gate of a
/// thread that is started. From Java's `ForkJoinPool.managedBlock`.
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
        drop_quietly(pool); // As above.
        return block();
    }
    let result = guarded(block);
    pool.end_blocking();
    worker.stop_blocking();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

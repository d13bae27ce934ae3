//! Permits: room in a pool that is held for one task. `engine/reserve.rs` reserves it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::engine::admit::Admit;
use crate::engine::core::Core;
use crate::engine::runner::{Accepts, Runner};
use crate::task::erased::Task;
use crate::task::handle::{JoinHandle, Open, PoolRef};

/// Room in a pool, held for one task. Submitting the task cannot fail.
///
/// ```
/// use pool_core::{Pool, SubmitError};
///
/// let pool = Pool::builder().capacity(2).build()?;
/// let (first, second) = (pool.reserve()?, pool.reserve()?); // Each waits while the pool is full.
/// assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
/// assert_eq!(pool.stats().reserved, 2);
///
/// drop(second); // The room is free again.
/// let message = String::from("created only after there was room for it");
/// let length = first.spawn(move || message.len()); // No error to handle.
/// assert_eq!(length.join()?, 40);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A permit can be sent to another thread and used there. Dropping it unused gives its room to the
/// head of the wait queue immediately.
///
/// # Held resources
/// - **Room**, as an accepted task does; permits count towards a full pool. As with any semaphore,
///   a thread that holds a permit and waits for room may wait for itself.
/// - **A worker**: while a permit is held, one worker neither expires nor ends at a release. The
///   task does not depend on starting a thread.
/// - **The pool**, as a handle does: the pool counts as having a handle until all permits are gone.
///   So a struct with a pool and its permit can drop them in any order, under any
///   [`DropPolicy`](crate::DropPolicy). If a permit is the last handle, the pool ends according to
///   the policy once the permit is dropped or used.
///
/// # Interaction with other calls
/// | call | while a permit is held |
/// |---|---|
/// | `release` | no more permits are given; the task of this one is accepted and runs |
/// | `wait_released`, `release_timeout`, and their futures | wait until the permit is used or dropped; on the thread or in the future that holds it, forever. The pool cannot detect that, because a permit may be sent to another thread |
/// | `release_now` | removes tasks, not permits; a task submitted with the permit afterwards runs |
/// | `reboot` | the permit belongs to the new generation, and holds room there |
/// | `wait_idle`, `wait_idle_async` | does not wait for the permit, which is not a task |
/// | `tune` | permits and tasks above the new limit keep their room; new ones wait until they fit |
/// | a fork | in the child the permit holds nothing and gives nothing back; its task is dropped, not run |
/// | [`std::mem::forget`] | the room is lost forever, and a release never ends |
///
/// A permit can also be used on one of the pool's own workers; a task spawned there can be joined
/// in place.
#[doc(alias = "semaphore")]
#[doc(alias = "OwnedSemaphorePermit")]
#[must_use = "dropping a permit gives its room back"]
pub struct Permit<R: Runner> {
    // Dropped before `open`: the drop of the last handle may wait for the pool's end, which waits
    // for this room.
    room: Room,
    runs: PhantomData<fn() -> R>,
    open: Open,
}

/// Gives the room back when dropped, unless it was used.
struct Room {
    core: Arc<Core>,
    is_used: bool,
}

impl<R: Runner> Permit<R> {
    /// Creates the permit for room that has been reserved.
    pub(crate) fn new(core: Arc<Core>, open: Open) -> Self {
        Self {
            room: Room {
                core,
                is_used: false,
            },
            runs: PhantomData,
            open,
        }
    }

    /// Submits a task without a handle. Never waits for room. Like any submit, it may have to
    /// start a thread or call the [thread gate](crate::Builder::thread_gate). If the thread cannot be
    /// started, an existing worker runs the task.
    ///
    /// In a forked child the task is dropped, not run.
    pub fn submit<T>(self, task: T)
    where
        R: Accepts<T>,
    {
        let job = Task::closure(R::body_of(task));
        let job = self.room.core.recorded(job);
        self.use_for(job);
    }

    /// Like [`submit`](Self::submit), and returns a handle to the task's value.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let permit = pool.reserve()?;
    /// assert_eq!(permit.spawn(|| 6 * 7).join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn spawn<T>(self, task: T) -> JoinHandle<R::Value>
    where
        R: Accepts<T>,
    {
        let record = self.room.core.context.record_of(None);
        let handle = self.room.core.handle_of::<R, T>(task, record);
        self.use_for(handle.job());
        JoinHandle::of(handle)
    }

    /// Leaves the room reserved. The caller uses it as `PoolHandle` says, and drops the returned handle with no lock
    /// held: it may be the pool's last one, whose drop policy may wait for the pool's end.
    #[doc(hidden)]
    #[must_use = "dropping it may run the drop policy"]
    pub fn keep(self) -> Open {
        let Self { mut room, open, .. } = self;
        room.is_used = true;
        open
    }

    /// Queues a job with this room.
    #[doc(hidden)]
    pub fn use_for(mut self, job: Task) {
        self.room.is_used = true;
        let core = &self.room.core;
        // In a forked child the job is dropped: no worker would run it, and the lock may be held by a
        // thread that does not exist there.
        if core.process().is_current() {
            // Step P2.
            core.section(|state, effects| state.redeem(job, effects));
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.is_used {
            self.core.give_back_room();
        }
    }
}

impl<R: Runner> fmt::Debug for Permit<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("pool", &self.room.core.context.name)
            .finish_non_exhaustive()
    }
}

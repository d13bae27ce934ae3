//! A permit: room in a pool that is held for one task.
//!
//! Not for: getting one, which is `reserve.rs`.

pub(crate) mod reserve;

use std::fmt;
use std::sync::Arc;

use crate::engine::admit::Admit;
use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::sched::state::State;
use crate::task::accept::Accepts;
use crate::task::handle::{JoinHandle, Open, PoolRef};

/// Room in a pool, held for one task, which is handed over without any way to fail.
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
/// let message = String::from("made only once there was room for it");
/// let length = first.spawn(move || message.len()); // No error to handle.
/// assert_eq!(length.join()?, 36);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It may be sent to another thread and used there. Dropped unused, it gives its room to the head of
/// the wait queue at once.
///
/// # What it holds
/// - **Room**, as an accepted task does: a pool is full by its permits, too. A thread that holds one
///   and waits for room waits for itself, as with any semaphore.
/// - **A worker**: while a permit is out, one worker neither expires nor leaves at a release, so that
///   the task finds it. The system cannot refuse it a thread.
/// - **The pool**, as a handle does: the pool's last handle is dropped when the permits have gone,
///   too. So a value with a pool and its permit in it may be dropped in any order, under any
///   [`DropPolicy`](crate::DropPolicy). Where a permit is the last handle, its end is the end that
///   the policy says, after its task was handed over.
///
/// # With everything else
/// | what | with a permit out |
/// |---|---|
/// | `release` | no more permits are given; this one is honoured, and its task runs |
/// | `wait_released` | waits until it was used or dropped: on the thread that holds it, for ever |
/// | `release_now` | takes out tasks, not permits; a task that it brings afterwards runs |
/// | `reboot` | it is one of the new generation, and holds room there |
/// | `wait_idle` | does not wait for it: it is no task |
/// | `tune` | more permits and tasks than fit keep their room; new ones wait until they fit |
/// | a fork | in the child it holds nothing, gives nothing back, and its task is dropped unrun: there is no worker |
/// | [`std::mem::forget`] | the room is gone for good, and a release never ends |
///
/// On one of the pool's own workers it is used as anywhere; a task that it spawns there may be
/// joined in place.
#[doc(alias = "semaphore")]
#[doc(alias = "OwnedSemaphorePermit")]
#[must_use = "dropping a permit gives its room back"]
pub struct Permit<R: Runner> {
    // Before `open`: the drop of the last handle may wait for the pool's end, and so for this.
    room: Room<R>,
    #[expect(dead_code, reason = "held for its drop")]
    open: Open,
}

/// Gives itself back when it is dropped, unless it was used.
struct Room<R: Runner> {
    core: Arc<Core<R>>,
    is_used: bool,
}

impl<R: Runner> Permit<R> {
    /// The permit of room that was reserved.
    pub(crate) fn new(core: Arc<Core<R>>, open: Open) -> Self {
        Self {
            room: Room {
                core,
                is_used: false,
            },
            open,
        }
    }

    /// Hands a task over, to be run and forgotten. Never waits; may have to start a thread for it,
    /// or ask the [gate](crate::Builder::thread_gate), as any submit. Is that refused, the task is
    /// left to the workers that there are.
    ///
    /// In a forked child, where no worker is, the task is dropped unrun.
    pub fn submit<T>(self, task: T)
    where
        R: Accepts<T>,
    {
        let job = self.room.core.detached_job(task);
        self.use_for(job);
    }

    /// Hands a task over as [`submit`](Self::submit) does, and returns a handle to its value.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let permit = pool.reserve()?;
    /// assert_eq!(permit.spawn(|| 6 * 7).join()?, 42); // A permit is not refused.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn spawn<T>(self, task: T) -> JoinHandle<R::Value>
    where
        R: Accepts<T>,
    {
        let (job, handle) = self.room.core.spawned_job(task, None);
        self.use_for(job);
        JoinHandle::of(handle)
    }

    /// The room stays reserved, for a task that is going to be
    /// [passed on](State::pass_on) to.
    pub(crate) fn keep(mut self) {
        self.room.is_used = true;
    }

    pub(crate) fn use_for(mut self, job: R::Job) {
        self.room.is_used = true;
        let core = &self.room.core;
        if core.process().is_current() {
            // Step P2.
            core.section(|state, effects| state.redeem(job, effects));
        }
    }
}

impl<R: Runner> Drop for Room<R> {
    fn drop(&mut self) {
        if !self.is_used {
            self.core.give_back_room();
        }
    }
}

impl<R: Runner> Core<R> {
    /// Step P3: an unused permit goes.
    pub(crate) fn give_back_room(self: &Arc<Self>) {
        if self.process().is_current() {
            self.section(State::give_back_room);
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

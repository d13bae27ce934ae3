//! Permits: room in a pool that is held for one task. `reserve.rs` reserves it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sync_shim::Parker;

use crate::config::OnFull;
use crate::engine::core::{Core, Late};
use crate::engine::runner::Accepts;
use crate::engine::{admit::Admit, runner::Runner};
use crate::error::{Closed, Reason, SubmitError};
use crate::sched::decide::WhenFull;
use crate::sched::event::EventWait;
use crate::sched::state::State;
use crate::sched::waiters::{Request, WaiterEntry};
use crate::sister::pool_handle::PoolHandle;
use crate::task::erased::Task;
use crate::task::handle::{JoinHandle, Open, PoolRef};
use crate::task::options::WaitLimits;

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

    /// Leaves the room reserved. The caller uses it as [`PoolHandle`] says, and drops the returned handle with no lock
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

impl Core {
    /// Step P3: returns the room of an unused permit.
    pub(crate) fn give_back_room(self: &Arc<Self>) {
        // In a forked child, the lock may be held by a thread that does not exist there, so the room
        // is lost instead; no one would use it.
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

// Reserving room, in one section, by blocking, or as a future: callers wait in the pool's only wait queue, together with submits (`sched/waiters.rs`).

impl Core {
    /// Reserves room, waiting as `on_full` and `limits` allow, or returns the reason why there is none.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<(), Reason> {
        // Before any lock is taken, because a thread that does not exist in a forked child may hold it.
        self.process().check(Reason::Forked)?;
        if self.refuses_full(on_full) {
            return Err(Reason::Full);
        }
        let deadline = WaitLimits::deadline(limits, on_full);
        let asked = WhenFull::asked_by_permit(on_full, self.own_worker());
        let admitted = self.admit_permit(
            |state, why| {
                let enqueues = matches!(why, Closed::Full)
                    && state.view().when_full(asked) == WhenFull::Enqueue;
                if !enqueues {
                    return Err(state.refuse(why));
                }
                let parker = Parker::of_thread();
                let entry = WaiterEntry::of_thread(Request::Permit, parker.clone());
                // Step Q1. In the section that found the pool full: otherwise room freed in between
                // would wake no one.
                let ticket = state.enqueue_waiter(Arc::clone(&entry));
                Ok((entry, ticket, parker))
            },
            |start: &EventWait| {
                let came = start.wait_until(PoolRef::clock(&**self), deadline);
                came.then_some(()).ok_or(Late)
            },
        );
        match admitted {
            Ok(()) => Ok(()),
            Err(Err(reason)) => Err(reason),
            Err(Ok((entry, ticket, parker))) => {
                let token = WaitLimits::token(limits);
                let waited = self.wait_for_room(&entry, ticket, &parker, deadline, token);
                waited.map_err(|(reason, _)| reason)
            }
        }
    }
}

impl Core {
    /// The answer of a full pool to a poll: an own worker must not wait for room, as in the blocking call.
    fn asked_by_future(&self) -> WhenFull {
        WhenFull::asked_by_permit(OnFull::Wait(None), self.own_worker())
    }
}

/// Resolves once room is reserved. Dropping it at any time gives the room back.
#[must_use = "futures do nothing unless polled"]
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct RoomFuture {
    core: Arc<Core>,
    stage: Stage<Task>,
}

enum Stage<J> {
    New,
    Waiting(Arc<WaiterEntry<J>>, u64),
    Done,
}

// Nothing is pinned.
impl Unpin for RoomFuture {}

impl RoomFuture {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let stage = Stage::New;
        Self { core, stage }
    }

    /// Handles the first poll. Returns `None` if the future now stands in the wait queue.
    fn enter(&mut self) -> Option<Result<(), Reason>> {
        let core = &self.core;
        let admitted = core.admit_permit(
            |state, why: Closed| {
                let enqueues = matches!(why, Closed::Full)
                    && state.view().when_full(core.asked_by_future()) == WhenFull::Enqueue;
                if !enqueues {
                    return Err(state.refuse(why));
                }
                let entry = WaiterEntry::of_future(Request::Permit);
                // Step Q1.
                let ticket = state.enqueue_waiter(Arc::clone(&entry));
                Ok(Stage::Waiting(entry, ticket))
            },
            |start| {
                start.wait();
                Ok(())
            },
        );
        match admitted {
            Ok(()) => Some(Ok(())),
            Err(Err(reason)) => Some(Err(reason)),
            Err(Ok(waiting)) => {
                self.stage = waiting;
                None
            }
        }
    }
}

impl Future for RoomFuture {
    type Output = Result<PoolHandle, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.core.process().check(SubmitError::Forked(()))?;
        let mut result = None;
        if let Stage::New = self.stage {
            // Before `enter`, so that the future is over if that unwinds.
            self.stage = Stage::Done;
            result = self.enter();
        }
        // Also right after it entered the queue, because the entry has no waker yet. USER CODE: the
        // waker's clone. If it panics, the entry is still ours to give up.
        if let Stage::Waiting(entry, ticket) = &self.stage {
            let answer = entry.poll(context.waker()).or_else(|| {
                if self.core.asked_by_future() == WhenFull::Enqueue {
                    return None;
                }
                let left = self.core.leave_wait_queue(entry, *ticket);
                let refused = left.map(|request| Err((Reason::Full, request)));
                refused.or_else(|| entry.outcome())
            });
            result = answer.map(|answer| answer.map(drop).map_err(|(reason, _)| reason));
        }
        // A future polled again after it was ready stays pending.
        let Some(result) = result else {
            return Poll::Pending;
        };
        self.stage = Stage::Done;
        Poll::Ready(match result {
            Ok(()) => Ok(PoolHandle(Arc::clone(&self.core))),
            Err(reason) => Err(reason.with(())),
        })
    }
}

impl Drop for RoomFuture {
    fn drop(&mut self) {
        let core = &self.core;
        if let Stage::Waiting(entry, ticket) = &self.stage
            && core.process().is_current()
            && core.leave_wait_queue(entry, *ticket).is_none()
            && matches!(entry.outcome(), Some(Ok(_)))
        {
            core.give_back_room(); // It was given room that it has not fetched.
        }
    }
}

//! A task: a future, its place in a run queue, and its outcome.
//!
//! One allocation holds all three. The word `state` says who may touch the future:
//!
//! # Invariants
//! 1. `SCHEDULED` is set from the creation until a worker takes the task out of a run queue, and from a wake-up on.
//!    Only the thread that sets it in a task without `SCHEDULED`, `RUNNING` and `DONE` puts the task into a run queue. So
//!    a task is in at most one run queue, once.
//! 2. A worker sets `RUNNING` for the time in which it polls or drops the future, and only that worker touches `stage`.
//!    Before the task is accepted, only its caller does.
//! 3. `DONE` is set once, after the future was dropped. It is never polled afterwards.
//! 4. A future that was polled stays in its place in memory until it is dropped there.
//! 5. `worker` is set by the first run, and touched by the worker that has set `RUNNING`, or by the thread that has set
//!    `SCHEDULED` in a task without those bits, until it has put the task into a run queue.

use std::any::type_name;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use pool_core::JoinError;
use pool_core::internals::{Joined, Promise, Promised};
use sync_shim::Mutex;
use sync_shim::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use sync_shim::cell::UnsafeCell;
use sync_shim::foreign::{drop_quietly, guarded, wake};
use sync_shim::waiter::Waiter;

use crate::admission::Job;
use crate::worker::{Shared, WorkerRef};

/// In a run queue, or about to be.
const SCHEDULED: u32 = 1;
/// A worker polls or drops the future.
const RUNNING: u32 = 2;
/// The future was dropped.
const DONE: u32 = 4;
/// The future is dropped at its next run instead of being polled.
const CANCELLED: u32 = 8;
/// As `CANCELLED`, by a `release_now`.
const RELEASED: u32 = 16;
/// Place of a task that no section has accepted, or whose section has not ended.
const UNPLACED: u64 = u64::MAX;

/// How a started task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Completed,
    Panicked,
    Cancelled,
    Released,
}

/// The tasks that a pool accepts, and how each becomes a future.
pub trait Starts<T>: Clone + Send + Sync + 'static {
    /// The value of a task.
    type Value: Send + 'static;
    /// The future of a task.
    type Future: Future<Output = Self::Value> + Send + 'static;

    /// Makes the future of a task, when it starts.
    fn start(&self, task: T) -> Self::Future;
}

/// A pool of any futures.
#[derive(Clone, Copy, Debug)]
pub struct Futures(());

impl Futures {
    pub(crate) const NEW: Self = Self(());
}

impl<F> Starts<F> for Futures
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Value = F::Output;
    type Future = F;

    fn start(&self, task: F) -> F {
        task
    }
}

/// A pool of the futures that one function makes of its arguments.
pub struct Func<F>(pub(crate) Arc<F>);

impl<F> Clone for Func<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F> std::fmt::Debug for Func<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Func(..)")
    }
}

impl<F, T, Fut> Starts<T> for Func<F>
where
    F: Fn(T) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: Send + 'static,
{
    type Value = Fut::Output;
    type Future = Fut;

    fn start(&self, task: T) -> Fut {
        (self.0)(task)
    }
}

/// Where an accepted task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the registry, under this key.
    Started(usize),
    /// In the queue of tasks that have not started, under this ticket.
    Pending(u64),
}

/// What a run has left.
pub(crate) enum Ran {
    /// The task is pending.
    Pending,
    /// It was woken meanwhile, and has to be queued again.
    Woken(Job),
    /// It has ended. Its caller counts that and then [resolves](Run::resolve) the task.
    Ended(Job, Ended),
}

/// A task as workers see it.
pub(crate) trait Run: Send + Sync {
    /// Polls the task once, or drops it, on a worker. Does not unwind.
    fn run(self: Arc<Self>, worker: &Arc<WorkerRef>) -> Ran;
    /// Where the task is, if a section has accepted it.
    fn place(&self) -> Option<Place>;
    /// Drops an accepted task that has not started. The caller counts that and then [resolves](Self::resolve) the task.
    /// Does not unwind.
    fn release(&self) -> Ended;
    /// Has a worker drop the future of a started task.
    fn discard(self: Arc<Self>);
    /// Says where the task is. Called in sections of the admission.
    fn set_place(&self, place: Place);
    /// Shows the outcome to the handle. Returns the waiter, which the caller notifies.
    fn show(&self) -> Option<Waiter>;
    /// Whether a thread or a task waits for the outcome.
    fn is_awaited(&self) -> bool;
}

/// Where the outcome of a task goes.
pub(crate) trait Sink<V>: Send + Sync + 'static {
    /// Stores the outcome until [`show`](Self::show). Without a handle drops it, as a part of the task.
    fn lay_aside(&self, outcome: Joined<V>);
    /// Shows the outcome that was laid aside to the handle, after the end of the task was counted. Returns the waiter.
    fn show(&self) -> Option<Waiter>;
    /// Whether a thread or a task waits for the outcome.
    fn is_awaited(&self) -> bool;
}

/// A task without a handle.
// As large as a promise: glibc keeps freed blocks of up to 128 bytes in lists of their own, and one thread that allocates
// what others free pays about 100 ns per task for that.
pub(crate) struct Nobody(#[expect(dead_code, reason = "takes up room")] [u64; 6]);

impl<V> Sink<V> for Nobody {
    fn lay_aside(&self, outcome: Joined<V>) {
        // USER CODE: the drop of a value without a handle. A panic is caught.
        drop_quietly(outcome);
    }

    fn show(&self) -> Option<Waiter> {
        None
    }

    fn is_awaited(&self) -> bool {
        false
    }
}

/// A task with a handle, which may have been dropped.
pub(crate) struct Handled<V>(Mutex<Promise<V>>);

impl<V: Send + 'static> Sink<V> for Handled<V> {
    fn lay_aside(&self, outcome: Joined<V>) {
        let unwanted = self.0.lock().lay_aside(outcome);
        // USER CODE: the drop of a value without a handle. A panic is caught.
        drop_quietly(unwanted);
    }

    fn show(&self) -> Option<Waiter> {
        let mut promise = self.0.lock();
        if promise.keep() {
            promise.take_waiter()
        } else {
            None
        }
    }

    fn is_awaited(&self) -> bool {
        self.0.lock().is_awaited()
    }
}

/// Notifies the waiter of an outcome.
pub(crate) fn notify(waiter: Waiter) {
    match waiter {
        Waiter::Thread(parker) => parker.unpark(),
        Waiter::Task(waker) => wake(waker),
    }
}

pub(crate) struct Task<R: Starts<T>, T, S> {
    state: AtomicU32,
    /// Twice the key, or twice the ticket plus one.
    place: AtomicU64,
    stage: UnsafeCell<Stage<R, T>>,
    sink: S,
    runner: R,
    /// That of its first run.
    worker: UnsafeCell<Option<Arc<WorkerRef>>>,
}

enum Stage<R: Starts<T>, T> {
    Unstarted(T),
    Started(R::Future),
    Gone,
}

// SAFETY: the only field that is not `Sync` is `stage`, which one thread at a time touches (invariant 2). It holds a `T`
// or an `R::Future`, which are `Send`: the bound on `T` is here, that on the future in `Starts`.
unsafe impl<R: Starts<T>, T: Send, S: Sync> Sync for Task<R, T, S> {}
// SAFETY: as above.
unsafe impl<R: Starts<T>, T: Send, S: Send> Send for Task<R, T, S> {}

impl<R: Starts<T>, T: Send + 'static> Task<R, T, Nobody> {
    /// Creates a task without a handle. No run queue holds it yet.
    pub(crate) fn detached(task: T, runner: &R) -> Arc<Self> {
        Self::with_sink(Nobody([0; 6]), task, runner)
    }
}

impl<R: Starts<T>, T: Send + 'static> Task<R, T, Handled<R::Value>> {
    /// Creates a task with a handle. No run queue holds it yet.
    pub(crate) fn new(task: T, runner: &R) -> Arc<Self> {
        Self::with_sink(Handled(Mutex::new(Promise::new())), task, runner)
    }
}

impl<R: Starts<T>, T: Send + 'static, S: Sink<R::Value>> Task<R, T, S> {
    fn with_sink(sink: S, task: T, runner: &R) -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU32::new(SCHEDULED),
            place: AtomicU64::new(UNPLACED),
            stage: UnsafeCell::new(Stage::Unstarted(task)),
            sink,
            runner: runner.clone(),
            worker: UnsafeCell::new(None),
        })
    }

    /// Takes the task back out of a cell that was refused.
    pub(crate) fn take_back(&self) -> T {
        self.stage.with_mut(|stage| {
            // SAFETY: the task was not accepted, so its caller is the only one to touch it (invariant 2).
            let stage = unsafe { &mut *stage };
            // Looked at first: a future that was polled must not be moved (invariant 4).
            assert!(
                matches!(stage, Stage::Unstarted(_)),
                "a refused task has not been started"
            );
            match std::mem::replace(stage, Stage::Gone) {
                Stage::Unstarted(task) => task,
                Stage::Started(_) | Stage::Gone => unreachable!("it was just looked at"),
            }
        })
    }

    /// Polls the future once. `None` if it is pending.
    fn poll(
        &self,
        context: &mut Context<'_>,
    ) -> Option<Result<R::Value, sync_shim::foreign::Payload>> {
        // USER CODE: the function of a `Func`, and the poll of a future. It occupies its worker. A panic is caught.
        let polled = guarded(AssertUnwindSafe(|| {
            self.stage.with_mut(|stage| {
                // SAFETY: this worker has set `RUNNING` (invariant 2).
                let stage = unsafe { &mut *stage };
                if let Stage::Unstarted(_) = stage {
                    let Stage::Unstarted(task) = std::mem::replace(stage, Stage::Gone) else {
                        unreachable!("it was just looked at")
                    };
                    *stage = Stage::Started(self.runner.start(task));
                }
                match stage {
                    // SAFETY: it stays in this place until `drop_stage` (invariant 4).
                    Stage::Started(future) => unsafe { Pin::new_unchecked(future) }.poll(context),
                    Stage::Unstarted(_) | Stage::Gone => {
                        unreachable!("a task that has ended is not polled")
                    }
                }
            })
        }));
        match polled {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(value)) => Some(Ok(value)),
            Err(payload) => Some(Err(payload)),
        }
    }

    /// Drops the future in its place. Returns `false` if its destructor panics.
    fn drop_stage(&self) -> bool {
        // USER CODE: the destructor of a future, or of a task that was not started. A panic is caught.
        guarded(AssertUnwindSafe(|| {
            self.stage.with_mut(|stage| {
                // SAFETY: this thread has set `RUNNING`, or is the only one that knows the task (invariant 2).
                unsafe { *stage = Stage::Gone };
            });
        }))
        .map_err(sync_shim::foreign::discard)
        .is_ok()
    }

    /// Polls the task, or drops it if it was cancelled or the pool discards all. Returns how it ended, and the outcome for
    /// its handle. `RUNNING` is set.
    fn step(
        &self,
        shared: &Shared,
        context: &mut Context<'_>,
    ) -> Option<(Ended, Joined<R::Value>)> {
        let state = self.state.load(Acquire);
        let is_cancelled = state & CANCELLED != 0;
        let (ended, outcome) = if is_cancelled || state & RELEASED != 0 || shared.is_discarding() {
            let (ended, why) = if is_cancelled {
                (Ended::Cancelled, JoinError::Cancelled)
            } else {
                (Ended::Released, JoinError::Released)
            };
            let is_dropped = self.drop_stage();
            (if is_dropped { ended } else { Ended::Panicked }, Err(why))
        } else {
            let polled = self.poll(context)?;
            let is_dropped = self.drop_stage();
            match polled {
                // A panic of the destructor is the task's, but its value is there.
                Ok(value) => (
                    if is_dropped {
                        Ended::Completed
                    } else {
                        Ended::Panicked
                    },
                    Ok(value),
                ),
                Err(payload) => {
                    shared.context.report_unnamed(type_name::<T>(), &*payload);
                    (Ended::Panicked, Err(shared.context.panicked(payload)))
                }
            }
        };
        self.state.fetch_or(DONE, Release);
        Some((ended, outcome))
    }

    /// Marks the task as scheduled. Returns whether the caller has to put it into a run queue.
    fn schedules(&self, flags: u32) -> bool {
        // A write in any case: the poll that follows must see what the caller wrote before it woke the task.
        let before = self.state.fetch_or(SCHEDULED | flags, AcqRel);
        before & (SCHEDULED | RUNNING | DONE) == 0
    }

    fn place(&self) -> Option<Place> {
        match self.place.load(Relaxed) {
            UNPLACED => None,
            word if word & 1 == 1 => Some(Place::Pending(word >> 1)),
            // Made of a `usize`.
            word => Some(Place::Started(
                usize::try_from(word >> 1).unwrap_or(usize::MAX),
            )),
        }
    }

    /// Has a worker look at the task.
    fn look_again(self: Arc<Self>, flags: u32) {
        if self.schedules(flags) {
            self.requeue();
        }
    }

    /// Puts a task that this thread has just scheduled into a run queue.
    fn requeue(self: Arc<Self>) {
        // SAFETY: this thread has just scheduled the task, so no other touches the field until it is in a queue
        // (invariant 5).
        let worker = self.worker.with(|worker| unsafe { &*worker }.clone());
        let worker =
            worker.unwrap_or_else(|| unreachable!("a task is scheduled until its first run"));
        worker.shared.schedule(self);
    }
}

impl<R: Starts<T>, T: Send + 'static, S: Sink<R::Value>> Run for Task<R, T, S> {
    fn run(self: Arc<Self>, worker: &Arc<WorkerRef>) -> Ran {
        // Clears the one and sets the other. Acquire, to see the stage as the last worker has left it, and all writes that
        // wakers made before they woke the task.
        self.state.fetch_xor(SCHEDULED | RUNNING, AcqRel);
        let waker = Waker::from(Arc::clone(&self));
        worker.polls(&waker, Task::place(&self));
        self.worker.with_mut(|owner| {
            // SAFETY: this worker has set `RUNNING` (invariant 5).
            let owner = unsafe { &mut *owner };
            owner.get_or_insert_with(|| Arc::clone(worker));
        });
        let step = self.step(&worker.shared, &mut Context::from_waker(&waker));
        worker.has_polled();
        drop(waker); // Not the last reference.
        let Some((ended, outcome)) = step else {
            // Release, so that the next worker sees the future as this poll has left it.
            let before = self.state.fetch_and(!RUNNING, AcqRel);
            return if before & SCHEDULED != 0 {
                Ran::Woken(self)
            } else {
                Ran::Pending
            };
        };
        self.sink.lay_aside(outcome);
        Ran::Ended(self, ended)
    }

    fn place(&self) -> Option<Place> {
        Task::place(self)
    }

    fn release(&self) -> Ended {
        let is_dropped = self.drop_stage();
        // It has been scheduled since its creation, so no wake-up meanwhile puts it into a queue.
        self.state.fetch_or(DONE, Release);
        self.sink.lay_aside(Err(JoinError::Released));
        if is_dropped {
            Ended::Released
        } else {
            Ended::Panicked
        }
    }

    fn discard(self: Arc<Self>) {
        self.look_again(RELEASED);
    }

    fn set_place(&self, place: Place) {
        let word = match place {
            Place::Started(key) => (key as u64) << 1,
            Place::Pending(ticket) => ticket << 1 | 1,
        };
        // Relaxed: a worker gets the task through a lock, and a handle's look at a stale place finds nothing there.
        self.place.store(word, Relaxed);
    }

    fn show(&self) -> Option<Waiter> {
        self.sink.show()
    }

    fn is_awaited(&self) -> bool {
        self.sink.is_awaited()
    }
}

impl<R: Starts<T>, T: Send + 'static, S: Sink<R::Value>> Wake for Task<R, T, S> {
    fn wake(self: Arc<Self>) {
        self.look_again(0);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.schedules(0) {
            Arc::clone(self).requeue();
        }
    }
}

/// A task as its handle sees it.
pub(crate) trait Joins<V>: Promised<V> + Send + Sync {
    /// Asks for the future to be dropped, by a worker.
    fn cancel(self: Arc<Self>, shared: &Shared);
    /// The handle is gone.
    fn detach(&self);
    fn is_finished(&self) -> bool;
    /// Whether the future was dropped. The end may not have been counted yet.
    fn is_dropped(&self) -> bool;
    /// Ticket of a task that has not started.
    fn ticket(&self, shared: &Shared) -> Option<u64>;
}

impl<R: Starts<T>, T: Send + 'static> Promised<R::Value> for Task<R, T, Handled<R::Value>> {
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<R::Value>> {
        let (value, unneeded) = self.sink.0.lock().take_or_wait(waiter);
        // USER CODE: the drop of a waker. A panic must not cost the caller the value.
        drop_quietly(unneeded);
        value
    }
}

impl<R: Starts<T>, T: Send + 'static> Joins<R::Value> for Task<R, T, Handled<R::Value>> {
    fn cancel(self: Arc<Self>, shared: &Shared) {
        let ticket = self.ticket(shared);
        self.look_again(CANCELLED);
        // Otherwise a cancelled task would wait for room.
        if let Some(ticket) = ticket {
            shared.section(|state, effects| state.drop_pending(ticket, effects));
        }
    }

    fn detach(&self) {
        let unwanted = self.sink.0.lock().detach();
        // USER CODE: the drop of a value or a waker. A panic is caught.
        drop_quietly(unwanted);
    }

    fn is_finished(&self) -> bool {
        self.sink.0.lock().is_kept()
    }

    fn is_dropped(&self) -> bool {
        self.state.load(Acquire) & DONE != 0
    }

    fn ticket(&self, shared: &Shared) -> Option<u64> {
        if self.place().is_none() {
            // The handle exists, so a section has accepted the task. After it the place is known.
            shared.admission.look(|_| ());
        }
        match self.place() {
            Some(Place::Pending(ticket)) => Some(ticket),
            _ => None,
        }
    }
}

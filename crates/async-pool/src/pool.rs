//! The pool handle, its builder, the calls, permits and join handles.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pool_core::internals::{
    Joined, PanicHook, Promised, TaskContext, Waiter, WaiterEntry, join, look_before_join, poll,
};
use pool_core::{
    BuildError, CancelToken, Capacity, Clock, DropPolicy, JoinError, QueueDepth, SubmitError,
    TaskPanic, Timeout, TuneError, WaitError,
};
use sync_shim::Mutex;
use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::thread::{JoinHandle as Thread, ThreadOptions, available_parallelism, spawn_thread};

use crate::admission::{Admission, Candidate, Job, State};
use crate::family::{ChildOf, Want};
use crate::task::{Func, Futures, Joins, Run, Starts, Task};
use crate::timers::outside;
use crate::waits::{Answer, Awaited, Patience, RoomFuture, WaitFuture, wait};
use crate::worker::Shared;

/// Runs the body of a worker, for example inside another runtime's context.
type Wrap = dyn Fn(&mut dyn FnMut()) + Send + Sync;

/// A bounded pool of futures. See the [crate's page](crate).
pub type AsyncPool = AsyncWorkerPool<Futures>;

/// A bounded pool of the futures that one function makes of its arguments. Tasks that have not started are stored as
/// arguments.
///
/// ```
/// use async_pool::AsyncFuncPool;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = AsyncFuncPool::new(|n: u64| async move { n * n })?;
/// assert_eq!(pool.spawn(12)?.join()?, 144);
/// # Ok(())
/// # }
/// ```
pub type AsyncFuncPool<F> = AsyncWorkerPool<Func<F>>;

/// A handle of a pool. Clones are the same pool. [`DropPolicy`] says what the drop of the last one does.
pub struct AsyncWorkerPool<R> {
    handle: Arc<Handle>,
    runner: R,
}

struct Handle {
    shared: Arc<Shared>,
    name: Arc<str>,
    drop_policy: DropPolicy,
    /// Started threads, and the number of times that the pool had ended before each started.
    threads: Mutex<Vec<(u64, Thread)>>,
    wrap: Option<Arc<Wrap>>,
}

/// Settings of a pool. Made by [`AsyncWorkerPool::builder`].
#[must_use]
pub struct Builder<R> {
    runner: R,
    name: String,
    workers: usize,
    capacity: Capacity,
    depth: QueueDepth,
    max_waiting: usize,
    drop_policy: DropPolicy,
    clock: Arc<dyn Clock>,
    wrap: Option<Arc<Wrap>>,
    panic_hook: Option<Arc<PanicHook>>,
}

impl<R> fmt::Debug for Builder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// Most workers of a pool, against mistakes: further ones would only wait for the same lock.
const MOST_WORKERS: usize = 1_024;

/// Name of a pool that was given none.
pub const DEFAULT_NAME: &str = "async-pool";

impl<R> Builder<R> {
    fn new(runner: R) -> Self {
        Self {
            runner,
            name: DEFAULT_NAME.to_owned(),
            workers: available_parallelism().min(MOST_WORKERS),
            capacity: Capacity::Unlimited,
            depth: QueueDepth::Limited(0),
            max_waiting: usize::MAX,
            drop_policy: DropPolicy::default(),
            clock: Arc::new(outside()),
            wrap: None,
            panic_hook: None,
        }
    }

    /// Sets the name of the pool and its threads.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the number of worker threads, from 1 to 1,024. The default is the number of cores.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the maximum number of live futures: started, and not dropped. The default is no limit.
    pub fn capacity(mut self, capacity: impl Into<Capacity>) -> Self {
        self.capacity = capacity.into();
        self
    }

    /// Sets the maximum number of accepted tasks that wait to be started. The default is 0.
    pub fn queue_depth(mut self, depth: impl Into<QueueDepth>) -> Self {
        self.depth = depth.into();
        self
    }

    /// Sets the maximum number of callers that wait for room. Further ones are refused.
    pub fn max_waiting(mut self, callers: usize) -> Self {
        self.max_waiting = callers;
        self
    }

    /// Sets the policy for the drop of the last handle.
    pub fn drop_policy(mut self, policy: DropPolicy) -> Self {
        self.drop_policy = policy;
        self
    }

    /// Sets the clock of all timers and time limits, for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets a function that is called on each worker thread and has to call its argument, which is the whole life of the
    /// worker. With a guard around the call, sockets and timers of another runtime work in the pool's futures:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use async_pool::AsyncPool;
    ///
    /// std::thread_local! { static ENTERED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) }; }
    /// let pool = AsyncPool::builder()
    ///     .around_worker(|run| {
    ///         ENTERED.set(true); // Or: `let _guard = runtime.enter();`
    ///         run();
    ///     })
    ///     .build()?;
    /// assert!(pool.spawn(async { ENTERED.get() })?.join()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Workers inherit the processors, the priority and the signal mask of the thread that builds or reboots the pool. Set
    /// others here, before the call.
    ///
    /// If it panics before it has called its argument, the worker runs without it.
    #[doc(alias = "affinity")]
    #[doc(alias = "nice")]
    pub fn around_worker(
        mut self,
        wrap: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static,
    ) -> Self {
        self.wrap = Some(Arc::new(wrap));
        self
    }

    /// Sets a function that is called with each panic of a task, on its worker, before the task's handle ends.
    pub fn panic_hook(mut self, hook: impl Fn(&TaskPanic<'_>) + Send + Sync + 'static) -> Self {
        self.panic_hook = Some(Arc::new(hook));
        self
    }

    /// Builds the pool and starts its workers.
    ///
    /// # Errors
    /// [`ZeroCapacity`](BuildError::ZeroCapacity), [`Workers`](BuildError::Workers) for a number of workers that is out of
    /// range, [`NulInName`](BuildError::NulInName), and [`NoThread`](BuildError::NoThread) if the operating system refuses a
    /// thread.
    pub fn build(self) -> Result<AsyncWorkerPool<R>, BuildError> {
        let capacity = limit_of(self.capacity);
        if capacity == 0 {
            return Err(BuildError::ZeroCapacity);
        }
        if self.workers == 0 || self.workers > MOST_WORKERS {
            return Err(BuildError::Workers {
                workers: self.workers,
                most: MOST_WORKERS,
            });
        }
        if self.name.contains('\0') {
            return Err(BuildError::NulInName);
        }
        let depth = match self.depth {
            QueueDepth::Limited(depth) => depth,
            QueueDepth::Unlimited => usize::MAX,
        };
        let name: Arc<str> = self.name.into();
        let context =
            TaskContext::of_pool(Arc::clone(&name), Arc::clone(&self.clock), self.panic_hook);
        let admission = Admission::new(capacity, depth, self.max_waiting, self.workers);
        let shared = Shared::new(admission, context, self.clock, self.workers);
        let handle = Arc::new(Handle {
            shared,
            name,
            drop_policy: self.drop_policy,
            threads: Mutex::new(Vec::new()),
            wrap: self.wrap,
        });
        let workers = handle.shared.section(|state, _| state.replace_workers());
        handle
            .start_workers(workers)
            .map_err(BuildError::NoThread)?;
        Ok(AsyncWorkerPool {
            handle,
            runner: self.runner,
        })
    }
}

fn limit_of(capacity: Capacity) -> usize {
    capacity.limit().unwrap_or(usize::MAX)
}

impl Handle {
    /// Starts workers that are counted already, so that a wait for the end does not overlook them.
    fn start_workers(&self, workers: Vec<usize>) -> io::Result<()> {
        let mut started = Ok(());
        for number in workers {
            if started.is_ok() {
                started = self.start_worker(number);
            }
            if started.is_err() {
                self.shared
                    .section(|state, effects| state.lose_worker(number, effects));
            }
        }
        started
    }

    fn start_worker(&self, number: usize) -> io::Result<()> {
        let wrap = self.wrap.clone();
        let shared = Arc::clone(&self.shared);
        let name = format!("{}-{number}", self.name);
        let options = ThreadOptions {
            name: Some(&name),
            ..ThreadOptions::default()
        };
        let body = move || {
            shared.mark_thread();
            let mut has_run = false;
            let mut run = || {
                if !std::mem::replace(&mut has_run, true) {
                    shared.work(number);
                }
            };
            if let Some(wrap) = wrap {
                // USER CODE: `around_worker`. A panic is caught.
                let _outcome =
                    guarded(std::panic::AssertUnwindSafe(|| wrap(&mut run))).map_err(discard);
                drop_quietly(wrap);
            }
            run();
            leave(&shared);
        };
        let ends = self.shared.admission.look(|state| state.ends);
        let thread = spawn_thread(options, body)?;
        let mut threads = self.threads.lock();
        // An ended thread keeps its stack as long as its handle exists.
        threads.retain(|(_, thread)| !thread.is_finished());
        threads.push((ends, thread));
        Ok(())
    }
}

impl Handle {
    /// Joins the threads of ends that have come. A reboot may have started others since.
    fn join_threads(&self) {
        let ends = self.shared.admission.look(|state| state.ends);
        let ended: Vec<_> = {
            let mut threads = self.threads.lock();
            threads
                .extract_if(.., |(started, _)| *started < ends)
                .collect()
        };
        for (_, thread) in ended {
            // A worker catches all panics; a destructor of a thread-local that panics aborts the process.
            _ = thread.join();
        }
    }
}

/// Counts a worker out.
fn leave(shared: &Shared) {
    shared.section(State::leave_worker);
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            return;
        }
        match self.drop_policy {
            DropPolicy::Discard => release_now(&self.shared),
            DropPolicy::Join if !self.shared.is_own_worker() => {
                release(&self.shared);
                _ = wait(&self.shared, Awaited::End, None);
                self.join_threads();
            }
            _ => _ = release(&self.shared),
        }
    }
}

impl AsyncPool {
    /// Starts the settings of a pool. Without a capacity it is not bounded.
    pub fn builder() -> Builder<Futures> {
        Builder::new(Futures::NEW)
    }
}

impl<F> AsyncFuncPool<F> {
    /// Creates a pool that is not bounded.
    ///
    /// # Errors
    /// See [`Builder::build`].
    pub fn new(function: F) -> Result<Self, BuildError> {
        Self::builder(function).build()
    }

    /// Starts the settings of a pool.
    pub fn builder(function: F) -> Builder<Func<F>> {
        Builder::new(Func(Arc::new(function)))
    }
}

// State that a handle shares is accessed under a lock only, and no user code runs under it: a panic leaves it consistent.
impl<R> UnwindSafe for AsyncWorkerPool<R> {}
impl<R> RefUnwindSafe for AsyncWorkerPool<R> {}
impl<R> UnwindSafe for Permit<R> {}
impl<R> RefUnwindSafe for Permit<R> {}
impl<V> UnwindSafe for JoinHandle<V> {}
impl<V> RefUnwindSafe for JoinHandle<V> {}

impl<R: Clone> Clone for AsyncWorkerPool<R> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
            runner: self.runner.clone(),
        }
    }
}

impl<R> fmt::Debug for AsyncWorkerPool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncWorkerPool")
            .field("name", &self.handle.name)
            .field("stats", &self.shared().admission.look(Stats::of))
            .finish_non_exhaustive()
    }
}

/// The calls with a task. All four of a kind (plain, `try_`, `_timeout`, `_async`) differ only in how they wait for room.
impl<R> AsyncWorkerPool<R> {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// The same pool, with another way to start tasks.
    pub(crate) fn with_runner<O>(&self, runner: impl FnOnce(&R) -> O) -> AsyncWorkerPool<O> {
        AsyncWorkerPool {
            handle: Arc::clone(&self.handle),
            runner: runner(&self.runner),
        }
    }

    fn put<T>(&self, task: T, patience: Patience<'_>) -> Result<(), SubmitError<T>>
    where
        R: Starts<T>,
        T: Send + 'static,
    {
        let cell = Task::detached(task, &self.runner);
        let admitted = self
            .shared()
            .admit(Some(Arc::clone(&cell) as Job), patience);
        admitted.map_err(|(why, _job)| why(()).map(|()| cell.take_back()))
    }

    pub(crate) fn put_joinable<T>(
        &self,
        task: T,
        patience: Patience<'_>,
    ) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Starts<T>,
        T: Send + 'static,
    {
        let cell = Task::new(task, &self.runner);
        match self
            .shared()
            .admit(Some(Arc::clone(&cell) as Job), patience)
        {
            Ok(()) => Ok(JoinHandle::new(cell, self.shared())),
            Err((why, _job)) => Err(why(()).map(|()| cell.take_back())),
        }
    }

    fn until(&self, timeout: impl Into<Timeout>) -> Patience<'static> {
        Patience::Until(timeout.into().deadline(&*self.shared().clock), None)
    }

    /// Submits a future. Blocks while the pool is full.
    ///
    /// # Errors
    /// [`Full`](SubmitError::Full) on one of the pool's own workers, which must not block, or with too many waiting callers;
    /// [`Released`](SubmitError::Released), [`Forked`](SubmitError::Forked).
    pub fn submit<T: Send + 'static>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Starts<T>,
    {
        self.put(task, Patience::Until(None, None))
    }

    /// Submits a future. Never blocks.
    ///
    /// # Errors
    /// As [`submit`](Self::submit); `Full` in any full pool.
    pub fn try_submit<T: Send + 'static>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Starts<T>,
    {
        self.put(task, Patience::None)
    }

    /// Submits a future. Blocks while the pool is full, for a `Duration` or until an `Instant`.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), and [`TimedOut`](SubmitError::TimedOut).
    pub fn submit_timeout<T: Send + 'static>(
        &self,
        task: T,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<T>>
    where
        R: Starts<T>,
    {
        self.put(task, self.until(timeout))
    }

    /// Submits a future, and waits asynchronously while the pool is full. The wait queue holds the future: it starts even
    /// if this wait is not polled. If the wait is dropped before that, so is the future. A future that is refused, or dropped
    /// with its wait, has not been polled.
    ///
    /// In a task of the pool it may start in the room of that task: see
    /// [the crate's page](crate#tasks-that-wait-for-tasks-of-their-own-pool).
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_async<T: Send + 'static>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Starts<T>,
    {
        let cell = Task::detached(task, &self.runner);
        let wait = RoomFuture::new(self.shared(), Some(Arc::clone(&cell) as Job));
        Answer::new(wait, move |room| match room {
            Ok(_) => Ok(()),
            Err((why, _)) => Err(why(()).map(|()| cell.take_back())),
        })
    }

    /// Submits a future without waiting: in a full pool, it is in the wait queue without a caller. Dropped if the pool is
    /// released, or if too many callers wait.
    #[cfg(feature = "hyper")]
    pub(crate) fn enqueue<T: Send + 'static>(&self, task: T)
    where
        R: Starts<T>,
    {
        let job = Task::detached(task, &self.runner);
        RoomFuture::new(self.shared(), Some(job)).leave_in_queue();
    }

    /// Like [`submit`](Self::submit), with a handle.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn spawn<T: Send + 'static>(&self, task: T) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Starts<T>,
    {
        self.put_joinable(task, Patience::Until(None, None))
    }

    /// Like [`try_submit`](Self::try_submit), with a handle.
    ///
    /// # Errors
    /// As [`try_submit`](Self::try_submit).
    pub fn try_spawn<T: Send + 'static>(
        &self,
        task: T,
    ) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Starts<T>,
    {
        self.put_joinable(task, Patience::None)
    }

    /// Like [`submit_timeout`](Self::submit_timeout), with a handle.
    ///
    /// # Errors
    /// As [`submit_timeout`](Self::submit_timeout).
    pub fn spawn_timeout<T: Send + 'static>(
        &self,
        task: T,
        timeout: impl Into<Timeout>,
    ) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Starts<T>,
    {
        self.put_joinable(task, self.until(timeout))
    }

    /// Like [`submit_async`](Self::submit_async), with a handle. If the wait is dropped after the future was accepted, the
    /// task is detached.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn spawn_async<T: Send + 'static>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<JoinHandle<R::Value>, SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Starts<T>,
    {
        self.put_joinable_async(task, None)
    }

    /// Like [`spawn_async`](Self::spawn_async), until the token is cancelled. If the wait is dropped after the future was
    /// accepted, the task is cancelled.
    pub(crate) fn spawn_async_owned<T: Send + 'static>(
        &self,
        task: T,
        token: &CancelToken,
    ) -> impl Future<Output = Result<JoinHandle<R::Value>, SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Starts<T>,
    {
        self.put_joinable_async(task, Some(token))
    }

    fn put_joinable_async<T: Send + 'static>(
        &self,
        task: T,
        owner: Option<&CancelToken>,
    ) -> impl Future<Output = Result<JoinHandle<R::Value>, SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Starts<T>,
    {
        let cell = Task::new(task, &self.runner);
        let mut wait = RoomFuture::new(self.shared(), Some(Arc::clone(&cell) as Job));
        if let Some(token) = owner {
            wait = wait.unless(token);
        }
        let mut handle =
            JoinHandle::new(Arc::clone(&cell) as Arc<dyn Joins<R::Value>>, self.shared());
        handle.cancels_on_drop = owner.is_some();
        Answer::new(wait, move |room| {
            let mut handle = handle;
            handle.cancels_on_drop = false;
            match room {
                Ok(_) => Ok(handle),
                Err((why, _)) => Err(why(()).map(|()| cell.take_back())),
            }
        })
    }

    /// Reserves room for one task. Blocks while the pool is full.
    ///
    /// ```
    /// use async_pool::AsyncPool;
    ///
    /// let pool = AsyncPool::builder().capacity(1).build()?;
    /// let permit = pool.reserve()?; // Room first, then, for example, a message is taken from a queue.
    /// assert!(pool.try_submit(async {}).is_err());
    /// assert_eq!(permit.spawn(async { "message" }).join()?, "message");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn reserve(&self) -> Result<Permit<R>, SubmitError>
    where
        R: Clone,
    {
        self.permit(Patience::Until(None, None))
    }

    /// Reserves room for one task. Never blocks.
    ///
    /// # Errors
    /// As [`try_submit`](Self::try_submit).
    pub fn try_reserve(&self) -> Result<Permit<R>, SubmitError>
    where
        R: Clone,
    {
        self.permit(Patience::None)
    }

    /// Reserves room for one task. Blocks while the pool is full, for a `Duration` or until an `Instant`.
    ///
    /// # Errors
    /// As [`submit_timeout`](Self::submit_timeout).
    pub fn reserve_timeout(&self, timeout: impl Into<Timeout>) -> Result<Permit<R>, SubmitError>
    where
        R: Clone,
    {
        self.permit(self.until(timeout))
    }

    /// Reserves room for one task, and waits asynchronously while the pool is full. The permit that a dropped wait has
    /// been given returns its room.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn reserve_async(
        &self,
    ) -> impl Future<Output = Result<Permit<R>, SubmitError>> + Send + Unpin + use<R>
    where
        R: Clone + Send + 'static,
    {
        let pool = self.clone();
        Answer::new(
            RoomFuture::new(self.shared(), None),
            move |room| match room {
                Ok(loan) => Ok(Permit {
                    pool: Some(pool),
                    loan,
                }),
                Err((why, _)) => Err(why(())),
            },
        )
    }

    fn permit(&self, patience: Patience<'_>) -> Result<Permit<R>, SubmitError>
    where
        R: Clone,
    {
        match self.shared().admit(None, patience) {
            Ok(()) => Ok(Permit {
                pool: Some(self.clone()),
                loan: ChildOf::NONE,
            }),
            Err((why, _)) => Err(why(())),
        }
    }

    /// Returns the pool's name.
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    /// Returns a snapshot of the pool's statistics.
    pub fn stats(&self) -> Stats {
        self.shared().end_for_workers();
        self.shared().admission.look(Stats::of)
    }

    /// Returns the maximum number of live futures.
    pub fn capacity(&self) -> Capacity {
        self.shared().admission.look(Stats::of).capacity
    }

    /// Changes the capacity. A lower one interrupts no future: fewer start until the number of live ones has fallen.
    ///
    /// # Errors
    /// [`ZeroCapacity`](TuneError::ZeroCapacity).
    pub fn tune(&self, capacity: impl Into<Capacity>) -> Result<(), TuneError> {
        let capacity = limit_of(capacity.into());
        if capacity == 0 {
            return Err(TuneError::ZeroCapacity);
        }
        self.shared().section(|state, effects| {
            state.capacity = capacity;
            state.refill(effects);
        });
        Ok(())
    }

    /// Stops accepting tasks. Accepted ones run. Returns `false` if the pool was released before.
    pub fn release(&self) -> bool {
        release(self.shared())
    }

    /// Stops accepting tasks, and drops all futures: those that have not started at once, the others at their next
    /// suspension, by a worker. Their handles end with [`JoinError::Released`].
    pub fn release_now(&self) {
        release_now(self.shared());
    }

    /// Opens a released pool again, with its settings. Workers that have ended are started again. Waits for the end go on:
    /// they return at the end that the next release brings.
    ///
    /// Returns `false` if the pool is open.
    ///
    /// # Errors
    /// If the operating system refuses a thread. The pool stays released if it has no worker then.
    pub fn reboot(&self) -> io::Result<bool> {
        let shared = self.shared();
        if !shared.process.is_current() {
            return Ok(false);
        }
        let workers = shared.section(|state, _| state.begin_reboot());
        let Some(workers) = workers else {
            return Ok(false);
        };
        let started = self.handle.start_workers(workers);
        let opened = shared.section(|state, effects| {
            let opens = state.end_reboot(effects);
            if opens {
                shared.go_on();
            }
            opens
        });
        started.map(|()| opened)
    }

    /// Whether the pool was released.
    pub fn is_released(&self) -> bool {
        self.shared().admission.look(|state| !state.open)
    }

    /// Blocks until no task is in flight.
    ///
    /// # Errors
    /// [`WouldDeadlock`](WaitError::WouldDeadlock) on an own worker, [`Forked`](WaitError::Forked) in a forked child.
    pub fn wait_idle(&self) -> Result<(), WaitError> {
        wait(self.shared(), Awaited::Idle, None)
    }

    /// Blocks until no task is in flight, for a `Duration` or until an `Instant`.
    ///
    /// # Errors
    /// As [`wait_idle`](Self::wait_idle), and [`TimedOut`](WaitError::TimedOut).
    pub fn wait_idle_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), WaitError> {
        wait(
            self.shared(),
            Awaited::Idle,
            timeout.into().deadline(&*self.shared().clock),
        )
    }

    /// Async version of [`wait_idle`](Self::wait_idle).
    ///
    /// # Errors
    /// As `wait_idle`: a task of the pool, which is in flight itself, gets [`WouldDeadlock`](WaitError::WouldDeadlock).
    pub fn wait_idle_async(
        &self,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + Unpin + use<R> {
        WaitFuture::new(self.shared(), Awaited::Idle)
    }

    /// Blocks until a released pool has ended: it has no futures and no threads. It has not ended while a permit is held.
    ///
    /// # Errors
    /// As [`wait_idle`](Self::wait_idle).
    pub fn wait_released(&self) -> Result<(), WaitError> {
        wait(self.shared(), Awaited::End, None)?;
        self.handle.join_threads();
        Ok(())
    }

    /// Like [`wait_released`](Self::wait_released), for a `Duration` or until an `Instant`. Threads that are ending may be
    /// left.
    ///
    /// # Errors
    /// As [`wait_idle_timeout`](Self::wait_idle_timeout).
    pub fn wait_released_timeout(&self, timeout: impl Into<Timeout>) -> Result<(), WaitError> {
        wait(
            self.shared(),
            Awaited::End,
            timeout.into().deadline(&*self.shared().clock),
        )
    }

    /// Async version of [`wait_released`](Self::wait_released). Threads that are ending may be left.
    ///
    /// # Errors
    /// As [`wait_idle_async`](Self::wait_idle_async).
    pub fn wait_released_async(
        &self,
    ) -> impl Future<Output = Result<(), WaitError>> + Send + Unpin + use<R> {
        WaitFuture::new(self.shared(), Awaited::End)
    }
}

fn release(shared: &Shared) -> bool {
    if !shared.process.is_current() {
        return false; // A thread of the parent, which does not exist here, may hold the lock.
    }
    let mut entries = Vec::new();
    let was_open = shared.section(|state, effects| state.release(&mut entries, effects));
    drop_entries(entries);
    was_open
}

fn release_now(shared: &Shared) {
    if !shared.process.is_current() {
        return;
    }
    let (mut entries, mut unstarted, mut started) = (Vec::new(), Vec::new(), Vec::new());
    // One section: a reboot comes before all of it, or after.
    shared.section(|state, effects| {
        state.discard_all(&mut unstarted, &mut started);
        state.release(&mut entries, effects);
        shared.discard();
    });
    started.into_iter().for_each(Run::discard);
    let mut ended = unstarted
        .into_iter()
        .map(|job| {
            let ended = job.release();
            (job, ended)
        })
        .collect();
    shared.end(&mut ended);
    drop_entries(entries);
}

fn drop_entries(entries: Vec<Arc<WaiterEntry<Candidate>>>) {
    // USER CODE: the drop of tasks whose waits were dropped. A panic is caught.
    for entry in entries {
        drop_quietly(entry);
    }
}

/// Room for one task. Dropping it returns the room.
#[must_use = "dropping a permit returns its room"]
pub struct Permit<R> {
    /// `None` once it was used.
    pool: Option<AsyncWorkerPool<R>>,
    /// Whether the room is that of the task that has asked for it.
    loan: ChildOf,
}

impl<R> Permit<R> {
    /// Submits a future. Succeeds also in a pool that was released since.
    pub fn submit<T: Send + 'static>(self, task: T)
    where
        R: Starts<T>,
    {
        self.use_for(|pool| {
            let cell = Task::detached(task, &pool.runner);
            (cell, ())
        });
    }

    /// Like [`submit`](Self::submit), with a handle.
    pub fn spawn<T: Send + 'static>(self, task: T) -> JoinHandle<R::Value>
    where
        R: Starts<T>,
    {
        self.use_for(|pool| {
            let cell = Task::new(task, &pool.runner);
            (
                Arc::clone(&cell) as Job,
                JoinHandle::new(cell, pool.shared()),
            )
        })
    }

    /// The same room, for the tasks of another handle of the pool.
    pub(crate) fn with_pool<O: Clone>(mut self, pool: &AsyncWorkerPool<O>) -> Permit<O> {
        self.pool = None;
        Permit {
            pool: Some(pool.clone()),
            loan: self.loan,
        }
    }

    fn use_for<T>(mut self, task: impl FnOnce(&AsyncWorkerPool<R>) -> (Job, T)) -> T {
        let pool = self.pool.take().expect("a permit is used once");
        let (job, handle) = task(&pool);
        let shared = pool.shared();
        if shared.process.is_current() {
            let parent = shared.own_task();
            shared.section(|state, effects| state.use_permit(job, self.loan, parent, effects));
        } else {
            std::mem::forget(job);
        }
        handle
    }
}

impl<R> Drop for Permit<R> {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else {
            return;
        };
        let shared = pool.shared();
        if shared.process.is_current() {
            shared.section(|state, effects| state.return_permit(self.loan, effects));
        }
    }
}

impl<R> fmt::Debug for Permit<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("pool", &self.pool.as_ref().map(AsyncWorkerPool::name))
            .finish_non_exhaustive()
    }
}

/// Waits for a task, takes its value, or cancels it. Awaited, or [joined](Self::join) by a thread. Dropping it detaches
/// the task.
///
/// When it is ready, the task's future has been dropped and its room is free.
#[must_use = "dropping a handle detaches its task"]
pub struct JoinHandle<V> {
    task: Arc<dyn Joins<V>>,
    shared: Arc<Shared>,
    cancels_on_drop: bool,
    /// The family of the task of the pool that waits for this one.
    noted_by: Option<u64>,
}

impl<V> JoinHandle<V> {
    fn new(task: Arc<dyn Joins<V>>, shared: &Arc<Shared>) -> Self {
        Self {
            task,
            shared: Arc::clone(shared),
            cancels_on_drop: false,
            noted_by: None,
        }
    }

    /// Ticket of a task that was accepted and has not started.
    pub(crate) fn ticket(&self) -> Option<u64> {
        self.task.ticket(&self.shared)
    }

    /// Blocks until the task has ended.
    ///
    /// # Errors
    /// Why there is no value: the task panicked, was cancelled, or was dropped by a `release_now`.
    /// [`WouldDeadlock`](JoinError::WouldDeadlock) on one of the pool's own workers, which must not block: await the handle
    /// there.
    pub fn join(self) -> Result<V, JoinError> {
        let shared = &self.shared;
        shared.process.check(JoinError::Forked)?;
        if !self.is_finished() && shared.is_own_worker() {
            return Err(JoinError::WouldDeadlock);
        }
        look_before_join(|| self.task.is_finished());
        let value = join(&Outcome(&self), &*shared.clock, None);
        value.unwrap_or_else(|| unreachable!("a wait without a limit has an outcome"))
    }

    /// Blocks until the task has ended, for a `Duration` or until an `Instant`.
    ///
    /// # Errors
    /// Returns the handle if the time is up.
    pub fn join_timeout(self, timeout: impl Into<Timeout>) -> Result<Result<V, JoinError>, Self> {
        let shared = &self.shared;
        if let Err(forked) = shared.process.check(JoinError::Forked) {
            return Ok(Err(forked));
        }
        let deadline = timeout.into().deadline(&*shared.clock);
        let value = join(&Outcome(&self), &*shared.clock, deadline);
        value.ok_or(self)
    }

    /// Whether the task has ended: its future was dropped. Takes no lock and runs no waker.
    pub fn is_finished(&self) -> bool {
        self.task.is_dropped()
    }

    /// Asks for the task's future to be dropped. A worker does that at the future's next suspension, and never polls it
    /// again. Its handle then ends with [`JoinError::Cancelled`], unless the future was ready before.
    pub fn cancel(&self) {
        if self.shared.process.is_current() {
            Arc::clone(&self.task).cancel(&self.shared);
        }
    }

    /// [Cancels](Self::cancel) the task and waits until its future has been dropped and its room is free.
    ///
    /// ```
    /// use async_pool::{AsyncPool, JoinError};
    ///
    /// # futures_lite::future::block_on(async {
    /// let pool = AsyncPool::builder().capacity(1).build()?;
    /// let task = pool.spawn(std::future::pending::<()>())?;
    /// assert!(matches!(task.cancelled().await, Err(JoinError::Cancelled)));
    /// assert_eq!(pool.stats().live, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`JoinError::Cancelled`]; the value if the task was ready before.
    pub fn cancelled(self) -> Self {
        self.cancel();
        self
    }

    /// Makes the drop of this handle cancel the task.
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancels_on_drop = true;
        self
    }
}

impl<V> Future for JoinHandle<V> {
    type Output = Result<V, JoinError>;

    /// In a task of the same pool, a task that has not started may start in the room of the calling one: see
    /// [the crate's page](crate#tasks-that-wait-for-tasks-of-their-own-pool).
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Joined<V>> {
        let this = &mut *self;
        this.shared.process.check(JoinError::Forked)?;
        if let Some(ticket) = this.task.ticket(&this.shared) {
            this.shared.note(&mut this.noted_by, Want::Pending(ticket));
        }
        poll(&Outcome(&self), context)
    }
}

/// The outcome of a handle's task.
struct Outcome<'a, V>(&'a JoinHandle<V>);

impl<V> Promised<V> for Outcome<'_, V> {
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<V>> {
        let JoinHandle { task, shared, .. } = self.0;
        let outcome = task.take_or_wait(waiter);
        // After the waiter was stored: a worker that ends the task later finds it.
        if outcome.is_none() && task.is_dropped() {
            shared.end_for_workers();
        }
        outcome
    }
}

impl<V> Drop for JoinHandle<V> {
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            std::mem::forget(Arc::clone(&self.task));
            return;
        }
        if self.cancels_on_drop {
            self.cancel();
        }
        self.task.detach();
    }
}

impl<V> fmt::Debug for JoinHandle<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

/// Snapshot of a pool's statistics at one instant.
///
/// When no task is in flight, `submitted = completed + panicked + cancelled + released`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Maximum number of live futures.
    pub capacity: Capacity,
    /// Number of live futures: started, not dropped, and not lending.
    pub live: usize,
    /// Number of futures that have started, wait for a task of this pool, and have lent their room to it. See
    /// [the crate's page](crate#tasks-that-wait-for-tasks-of-their-own-pool).
    pub lending: usize,
    /// Number of accepted tasks that have not started.
    pub queued: usize,
    /// Number of accepted tasks that have not ended: `live + lending + queued`.
    pub in_flight: usize,
    /// Number of permits held.
    pub reserved: usize,
    /// Number of threads and futures that wait for room.
    pub waiting: usize,
    /// Tasks accepted since the pool was built.
    pub submitted: u64,
    /// Futures that were ready.
    pub completed: u64,
    /// Futures that panicked, in a poll or in their destructor.
    pub panicked: u64,
    /// Futures dropped because they were cancelled.
    pub cancelled: u64,
    /// Futures dropped by a `release_now`.
    pub released: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Peak number of live futures.
    pub peak_live: usize,
}

impl Stats {
    fn of(state: &State) -> Self {
        let capacity = match state.capacity {
            usize::MAX => Capacity::Unlimited,
            most => Capacity::Limited(most),
        };
        let counts = state.counts;
        Self {
            capacity,
            live: state.live(),
            lending: state.lending(),
            queued: state.pending(),
            in_flight: state.in_flight(),
            reserved: state.reserved,
            waiting: state.waiting(),
            submitted: counts.submitted,
            completed: counts.completed,
            panicked: counts.panicked,
            cancelled: counts.cancelled,
            released: counts.released,
            refused: counts.refused,
            peak_live: state.peak,
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use futures_lite::future::block_on;

    use crate::AsyncPool;

    #[test]
    fn a_wait_for_the_end_of_a_cycle_joins_no_thread_of_the_next() {
        let pool = AsyncPool::builder().workers(2).build();
        let pool = pool.expect("threads can be started");
        for _ in 0..20 {
            pool.release();
            block_on(pool.wait_released_async()).expect("no task waits");
            assert!(pool.reboot().expect("threads can be started"));
            // As a `wait_released` that has waited since before the reboot. The new threads do not end.
            pool.handle.join_threads();
            assert_eq!(pool.handle.threads.lock().len(), 2);
        }
    }
}

//! The calls that submit and spawn tasks, for pools and multi-pools.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sync_shim::Timeout;

use crate::config::OnFull;
use crate::engine::admit::{Admit, AdmitHandle};
use crate::engine::core::Core;
use crate::engine::runner::{Accepts, Runner};
use crate::engine::wait::Awaited;
use crate::error::SubmitError;
use crate::face::pool::WorkerPool;
use crate::permit::Permit;
use crate::task::handle::JoinHandle;

/// Submitting tasks. A [`Pool`](crate::Pool) takes closures, a [`FuncPool`](crate::FuncPool) its
/// function's arguments; see [`Accepts`].
impl<R: Runner, A: Admit> WorkerPool<R, A> {
    /// Submits a task without a handle. Waits while the pool is full.
    ///
    /// The worker drops the value of the closure or function as a part of the task. A closure or an
    /// argument of up to 56 bytes is stored without an allocation, a larger one is boxed.
    ///
    /// On one of the pool's own workers, a submit at a full pool runs the task in place instead of
    /// waiting (see [`WithinWorker`](crate::WithinWorker)). A
    /// [`nonblocking`](crate::Builder::nonblocking) pool refuses the task. May block while the first
    /// thread is started.
    ///
    /// ```
    /// use pool_core::{FuncPool, Pool};
    /// use std::sync::mpsc;
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let from_closure = sender.clone();
    /// pool.submit(move || from_closure.send(1))?;
    ///
    /// let numbers = FuncPool::builder(move |n: u32| sender.send(n)).capacity(1).build()?;
    /// numbers.submit(2)?;
    /// assert_eq!(receiver.recv()? + receiver.recv()?, 3);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    #[doc(alias = "execute")]
    #[doc(alias = "fire_and_forget")]
    #[doc(alias = "Submit")]
    #[doc(alias = "Invoke")]
    pub fn submit<T>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.admit().submit_task::<R, _>(task, self.on_full())
    }

    /// Like [`submit`](Self::submit), but returns [`Full`](SubmitError::Full) at a full pool. Never
    /// waits for room. If the pool has no worker yet, starts the first one, or waits for its start.
    ///
    /// ```
    /// use pool_core::{Pool, SubmitError};
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// match pool.try_submit(|| println!("hello")) {
    ///     Ok(()) => {}
    ///     Err(SubmitError::Full(task)) => task(), // Returned in the error: run it here.
    ///     Err(other) => return Err(other.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    #[doc(alias = "load_shed")]
    #[doc(alias = "WithNonblocking")]
    pub fn try_submit<T>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.admit().submit_task::<R, _>(task, OnFull::Refuse)
    }

    /// Like [`submit`](Self::submit), but waits for at most a duration, or until an instant. The limit
    /// does not apply if this call itself has to start the first worker.
    ///
    /// ```
    /// use pool_core::{Pool, SubmitError};
    /// use std::time::Duration;
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let permit = pool.reserve()?; // The pool is full.
    /// let refused = pool.submit_timeout(|| (), Duration::from_millis(1));
    /// assert!(matches!(refused, Err(SubmitError::TimedOut(_))));
    /// drop(permit);
    /// pool.submit_timeout(|| (), Duration::from_secs(60))?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn submit_timeout<T>(
        &self,
        task: T,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let deadline = self.deadline(timeout);
        self.admit()
            .submit_task::<R, _>(task, OnFull::Wait(deadline))
    }

    /// Async version of [`submit`](Self::submit): resolves once the task is accepted.
    ///
    /// Futures and threads share one wait queue. The future does nothing before its first poll,
    /// which may have to start the first worker or wait for its start. After it, the task can be
    /// accepted without another poll. Dropping the future drops a task that has not been accepted.
    /// Works under any runtime.
    ///
    /// A poll on one of the pool's own workers does not wait for room, because the future may keep
    /// that worker from its end: it does what [`submit`](Self::submit) does there. So it runs the task
    /// in place at a full pool, unless [`WithinWorker`](crate::WithinWorker) says otherwise.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// pool.submit_async(|| println!("it was accepted")).await?; // Back-pressure: waits for room.
    /// pool.wait_idle_async().await?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    #[doc(alias = "backpressure")]
    pub fn submit_async<T>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<R, A, T>
    where
        R: Accepts<T>,
    {
        Arc::clone(self.admit()).submit_task_async::<R, _>(task, None)
    }

    /// Submits a task and returns a handle to its value. Waits as [`submit`](Self::submit) does.
    ///
    /// Costs one allocation, and another one for a closure of more than 16 KiB or an argument
    /// of more than 56 bytes.
    ///
    /// ```
    /// use pool_core::{FuncPool, Pool};
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// assert_eq!(pool.spawn(|| 6 * 7)?.join()?, 42);
    ///
    /// let squares = FuncPool::builder(|n: u64| n * n).capacity(1).build()?;
    /// assert_eq!(squares.spawn(7)?.join()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    #[doc(alias = "spawn_blocking")]
    pub fn spawn<T>(&self, task: T) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.admit().spawn_task::<R, _>(task, None, self.on_full())
    }

    /// Like [`spawn`](Self::spawn), but refuses at a full pool, as [`try_submit`](Self::try_submit)
    /// does.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// match pool.try_spawn(|| 6 * 7) {
    ///     Ok(answer) => assert_eq!(answer.join()?, 42),
    ///     Err(refused) => println!("{refused}"), // "the pool is full", for example.
    /// }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn try_spawn<T>(&self, task: T) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.admit().spawn_task::<R, _>(task, None, OnFull::Refuse)
    }

    /// Like [`spawn`](Self::spawn), but waits for at most a duration, or until an instant, as
    /// [`submit_timeout`](Self::submit_timeout) does.
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    pub fn spawn_timeout<T>(
        &self,
        task: T,
        timeout: impl Into<Timeout>,
    ) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let deadline = self.deadline(timeout);
        self.admit()
            .spawn_task::<R, _>(task, None, OnFull::Wait(deadline))
    }

    /// Async version of [`spawn`](Self::spawn): resolves to the handle once the task is accepted;
    /// see [`submit_async`](Self::submit_async). Dropping the future after that detaches the task.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let handle = pool.spawn_async(|| std::fs::metadata("Cargo.toml")).await?; // Waits for room,
    /// assert!(handle.await??.len() > 0); // then for the value.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`SubmitError`], which returns the task.
    #[doc(alias = "spawn_blocking")]
    pub fn spawn_async<T>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<JoinHandle<R::Value>, SubmitError<T>>> + Send + Unpin + use<R, A, T>
    where
        R: Accepts<T>,
    {
        Arc::clone(self.admit()).spawn_task_async::<R, _>(task, None)
    }
}

/// Async waits. They work under any runtime, never block, and can be dropped at any time.
///
/// Unlike the blocking calls, these futures do not join threads: they are ready as soon as the last
/// worker has run its last task and its stop hook. Its thread, and those of workers that ended
/// before it, may still run destructors of thread-locals; [`Stats::ending`](crate::Stats::ending)
/// counts the threads not yet joined. A poll on one of the pool's own workers does not wait, because
/// the polling task keeps its own pool from becoming idle: it returns
/// [`WouldDeadlock`](crate::WaitError::WouldDeadlock), as the blocking calls do. A future that was
/// created on a worker can be polled by any other thread.
impl<R: Runner, A: Admit> WorkerPool<R, A> {
    /// Async version of [`wait_idle`](Self::wait_idle). Resolves once there has been an instant
    /// after its first poll at which no task was in flight.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// pool.submit(|| println!("done"))?;
    /// pool.wait_idle_async().await?;
    /// assert_eq!(pool.in_flight(), 0);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::WaitError::WouldDeadlock) if it is polled on an own worker,
    /// [`Forked`](crate::WaitError::Forked) in a forked child.
    pub fn wait_idle_async(
        &self,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A> {
        Arc::clone(self.admit()).wait_async(Awaited::Rest, None)
    }

    /// Resolves once the pool has ended: it is released (by any thread), no task is in flight, and
    /// no worker is left. The future does not keep the pool open.
    ///
    /// # Errors
    /// [`WouldDeadlock`](crate::WaitError::WouldDeadlock) if it is polled on an own worker,
    /// [`Rebooted`](crate::WaitError::Rebooted) if the pool is rebooted first,
    /// [`Forked`](crate::WaitError::Forked) in a forked child.
    pub fn wait_released_async(
        &self,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A> {
        Arc::clone(self.admit()).wait_async(Awaited::End, None)
    }

    /// Releases the pool at the first poll, and resolves once it has ended, as
    /// [`wait_released_async`](Self::wait_released_async) does.
    ///
    /// For shutdown in an async program. After it, dropping the last handle blocks no thread of the
    /// runtime, even under [`DropPolicy::Join`](crate::DropPolicy::Join), which otherwise blocks
    /// until all accepted tasks have run.
    ///
    /// ```
    /// use pool_core::{DropPolicy, Pool};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let pool = Pool::builder().capacity(2).drop_policy(DropPolicy::Join).build()?;
    /// let answer = pool.spawn_async(|| 6 * 7).await?;
    /// pool.release_async().await?; // The runtime's thread runs other futures meanwhile.
    /// assert_eq!((answer.await?, pool.running()), (42, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`wait_released_async`](Self::wait_released_async). The pool stays released after an
    /// error.
    pub fn release_async(
        &self,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A> {
        Arc::clone(self.admit()).wait_async(Awaited::Release, None)
    }

    /// Like [`release_async`](Self::release_async), but resolves at the latest after a
    /// [`Duration`](std::time::Duration) from this call, or at an [`Instant`](std::time::Instant),
    /// by the pool's clock.
    ///
    /// # Errors
    /// As [`release_async`](Self::release_async), and [`TimedOut`](crate::WaitError::TimedOut),
    /// also if the clock has no thread to wake the future.
    pub fn release_timeout_async<T: Into<Timeout>>(
        &self,
        timeout: T,
    ) -> impl Future<Output = Result<(), A::WaitError>> + Send + Unpin + use<R, A, T> {
        let deadline = self.deadline(timeout);
        Arc::clone(self.admit()).wait_async(Awaited::Release, deadline)
    }
}

// The calls that reserve room, for one pool and for several.

/// Reservations: room first, the task later.
///
/// A [`Permit`] is for callers that need room before they create a task, or that report readiness
/// for more work before they get any. Other callers should submit directly: a permit costs two
/// sections, and holds its room unused until then.
impl<R: Runner, A: Admit> WorkerPool<R, A> {
    /// Reserves room for one task. Waits while the pool is full, in the same wait queue as submits.
    ///
    /// On one of the pool's own workers a full pool refuses (except under
    /// [`WithinWorker::Block`](crate::WithinWorker::Block)), because there is no task yet to run in
    /// place. A [`nonblocking`](crate::Builder::nonblocking) pool refuses. May block while the
    /// first thread is started.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let permit = pool.reserve()?; // Waits while the pool is full.
    /// let next = String::from("read from the socket now that there is room for it");
    /// permit.submit(move || println!("{next}"));
    /// # pool.wait_idle()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// See [`SubmitError`].
    #[doc(alias = "acquire")]
    pub fn reserve(&self) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(self.on_full())
    }

    /// Like [`reserve`](Self::reserve), but refuses at a full pool, as
    /// [`try_submit`](Self::try_submit) does.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let permit = pool.try_reserve()?;
    /// assert!(pool.try_reserve().is_err_and(|refused| refused.is_full()));
    /// drop(permit);
    /// assert!(pool.try_reserve().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn try_reserve(&self) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Refuse)
    }

    /// Like [`reserve`](Self::reserve), but waits for at most a duration, or until an instant.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn reserve_timeout(&self, timeout: impl Into<Timeout>) -> Result<Permit<R>, SubmitError> {
        self.reserve_with(OnFull::Wait(self.deadline(timeout)))
    }

    /// Async version of [`reserve`](Self::reserve).
    ///
    /// Futures and threads share one wait queue. The future does nothing before its first poll,
    /// which may have to start the first worker or wait for its start. A woken future holds its
    /// room even if it is not polled again. A dropped future gives up its place in the wait queue,
    /// and its room. The future keeps the pool open, as a permit does. Works under any runtime.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let permit = pool.reserve_async().await?;
    /// assert_eq!(permit.spawn(|| 42).await?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// A `tower` service keeps the future, and then the permit, from `poll_ready` to `call`. A
    /// clone of the service starts without them.
    ///
    /// ```
    /// use pool_core::{Closures, JoinHandle, Permit, Pool, ReserveFuture, SubmitError};
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll, Waker, ready};
    ///
    /// struct Lengths {
    ///     pool: Pool,
    ///     waiting: Option<ReserveFuture<Closures>>,
    ///     permit: Option<Permit<Closures>>,
    /// }
    ///
    /// impl Lengths {
    ///     fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SubmitError>> {
    ///         if self.permit.is_none() {
    ///             let waiting = self.waiting.get_or_insert_with(|| self.pool.reserve_async());
    ///             let answer = ready!(Pin::new(waiting).poll(context));
    ///             self.waiting = None; // After an error the next poll asks again.
    ///             self.permit = Some(answer?);
    ///         }
    ///         Poll::Ready(Ok(()))
    ///     }
    ///
    ///     fn call(&mut self, request: String) -> JoinHandle<usize> {
    ///         let permit = self.permit.take().expect("`poll_ready` comes first");
    ///         permit.spawn(move || request.len()) // The handle is the service's future.
    ///     }
    /// }
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let service = || Lengths { pool: pool.clone(), waiting: None, permit: None };
    /// let (mut one, mut other) = (service(), service());
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(one.poll_ready(&mut context).is_ready());
    /// assert!(other.poll_ready(&mut context).is_pending(), "the room is taken");
    /// assert_eq!(one.call("four".into()).join()?, 4);
    /// assert!(other.poll_ready(&mut context).is_ready());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A poll on one of the pool's own workers does not wait for room: as in
    /// [`reserve`](Self::reserve), a full pool refuses.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn reserve_async(&self) -> ReserveFuture<R, A> {
        ReserveFuture {
            room: Arc::clone(self.admit()).reserve_room_async(),
            pool: self.clone(),
        }
    }

    pub(crate) fn reserve_with(&self, on_full: OnFull) -> Result<Permit<R>, SubmitError> {
        let pool = self.admit().reserve_room(on_full)?;
        Ok(pool.permit(self.keep_open()))
    }
}

/// Resolves to a permit. See [`WorkerPool::reserve_async`].
#[must_use = "futures do nothing unless polled"]
pub struct ReserveFuture<R: Runner, A: Admit = Core> {
    // Dropped before `pool`, because its drop may give room back.
    room: A::RoomFuture,
    pool: WorkerPool<R, A>,
}

impl<R: Runner, A: Admit> Future for ReserveFuture<R, A> {
    type Output = Result<Permit<R>, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let room = Pin::new(&mut self.room).poll(context);
        room.map(|room| Ok(room?.permit(self.pool.keep_open())))
    }
}

impl<R: Runner, A: Admit> fmt::Debug for ReserveFuture<R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveFuture")
            .field("pool", &self.pool.name())
            .finish_non_exhaustive()
    }
}

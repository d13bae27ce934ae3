//! The ten calls that submit a task, to the first of the pools that has room.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pool_core::internals::{
    Admit, AdmitHandle, PoolHandle, RawHandle, TaskOptions, WaitLimits, submit_batch,
};
use pool_core::{Accepts, BatchError, Cancelled, JoinHandle, OnFull, Runner, SubmitError};

use crate::multi::MultiWorkerPool;
use crate::shared::Shared;
use crate::submit_future::SubmitFuture;

impl<R: Runner> AdmitHandle for MultiWorkerPool<R> {
    type Runner = R;
    type Admit = Shared<R>;
    fn admit(&self) -> &Arc<Shared<R>> {
        self.shared()
    }
}

impl<R: Runner> Admit<R> for Shared<R> {
    type Future = SubmitFuture<R>;

    fn pool_handle(self: &Arc<Self>) -> PoolHandle<R> {
        self.first().clone()
    }

    /// Nothing: each pool that is asked says so itself.
    fn refuses(&self, _on_full: OnFull) -> Result<(), SubmitError> {
        Ok(())
    }

    #[inline]
    fn records_all(&self) -> bool {
        self.first().records_all()
    }

    fn members(&self) -> &[PoolHandle<R>] {
        &self.members
    }

    fn submit_job(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
    ) -> Result<(), SubmitError> {
        if self.records_all() {
            self.submit_recorded_job(job, TaskOptions::default(), on_full)
        } else {
            self.admit_job(job, on_full, None).map(drop)
        }
    }

    fn admit_job(
        self: &Arc<Self>,
        job: &mut Option<R::Job>,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Result<usize, SubmitError> {
        let offered = job.take().expect("a job is accepted once");
        self.submit(offered, on_full, limits).map_err(|refused| {
            let (reason, refused) = refused.into_parts();
            *job = Some(refused);
            reason
        })
    }

    fn count_unoffered(&self) {
        let _refusal = self.count_refusal(SubmitError::Cancelled(()));
    }

    fn admit_async(self: Arc<Self>, job: R::Job, cancelled: Option<Cancelled>) -> SubmitFuture<R> {
        SubmitFuture::new(self, job, cancelled)
    }

    fn set_pool(&self, pool: usize, handle: &mut RawHandle) {
        if pool > 0 {
            self.members[pool].adopt(handle);
        }
    }
}

/// Handing tasks over: closures, or the arguments of one function, as [`Accepts`] says. Each call
/// does what [`WorkerPool`](pool_core::WorkerPool)'s of the same name does, for all pools at once; a
/// refused task comes back in the error, unrun.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl<R: Runner> MultiWorkerPool<R> {
    /// Hands a task over, to be run and forgotten. Waits while every pool is full; the first that
    /// frees room takes the task.
    ///
    /// What a closure returns is dropped on the worker as a part of the task, as a function's value
    /// is.
    ///
    /// On a worker of any of the pools it is run in place instead (see
    /// [`WithinWorker`](pool_core::WithinWorker)). Pools that were built
    /// [`nonblocking`](pool_core::Builder::nonblocking) refuse. May block for as long as starting a
    /// thread takes.
    ///
    /// ```
    /// use multi_pool::MultiPool;
    /// use pool_core::Pool;
    ///
    /// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// pool.submit(|| println!("in one of the two pools"))?;
    /// pool.wait_idle()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "execute")]
    #[doc(alias = "Submit")]
    #[doc(alias = "Invoke")]
    pub fn submit<T>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.shared().submit_task(task, self.on_full())
    }

    /// As [`submit`](Self::submit), but refuses if every pool is full. Never waits for room.
    pub fn try_submit<T>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.shared().submit_task(task, OnFull::Refuse)
    }

    /// As [`submit`](Self::submit), but waits at most for so long.
    pub fn submit_timeout<T>(&self, task: T, timeout: Duration) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let deadline = self.deadline(timeout);
        self.shared().submit_task(task, OnFull::Wait(deadline))
    }

    /// As [`submit`](Self::submit), but waits at most until then.
    pub fn submit_deadline<T>(&self, task: T, deadline: Instant) -> Result<(), SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.shared()
            .submit_task(task, OnFull::Wait(Some(deadline)))
    }

    /// As [`submit`](Self::submit), as a future: it resolves once a pool has accepted the task.
    ///
    /// Futures and threads are served in one order. Nothing happens before the first poll; after it
    /// the future need not be polled again. Dropping it withdraws a task that has not been accepted. It
    /// never runs in place. Works under any runtime.
    pub fn submit_async<T>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Accepts<T>,
    {
        Arc::clone(self.shared()).submit_task_async(task, None)
    }

    /// Hands a task over and returns a handle to its value. Waits as [`submit`](Self::submit) does.
    /// Costs what it costs [one pool](pool_core::WorkerPool::spawn).
    ///
    /// ```
    /// # use multi_pool::MultiPool;
    /// # use pool_core::Pool;
    /// # let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// let answer = pool.spawn(|| 6 * 7)?;
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "spawn_blocking")]
    pub fn spawn<T>(&self, task: T) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.shared().spawn_task(task, None, self.on_full())
    }

    /// As [`spawn`](Self::spawn), but refuses if every pool is full. Never waits for room.
    pub fn try_spawn<T>(&self, task: T) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.shared().spawn_task(task, None, OnFull::Refuse)
    }

    /// As [`spawn`](Self::spawn), but waits at most for so long.
    pub fn spawn_timeout<T>(
        &self,
        task: T,
        timeout: Duration,
    ) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        let deadline = self.deadline(timeout);
        self.shared().spawn_task(task, None, OnFull::Wait(deadline))
    }

    /// As [`spawn`](Self::spawn), but waits at most until then.
    pub fn spawn_deadline<T>(
        &self,
        task: T,
        deadline: Instant,
    ) -> Result<JoinHandle<R::Value>, SubmitError<T>>
    where
        R: Accepts<T>,
    {
        self.shared()
            .spawn_task(task, None, OnFull::Wait(Some(deadline)))
    }

    /// As [`spawn`](Self::spawn), as a future that resolves to the handle.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use multi_pool::MultiPool;
    /// # use pool_core::Pool;
    /// # let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(2).build()?;
    /// let answer = pool.spawn_async(|| 6 * 7).await?; // Waits for room in any pool,
    /// assert_eq!(answer.await?, 42); // then for the value.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn spawn_async<T>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<JoinHandle<R::Value>, SubmitError<T>>> + Send + Unpin + use<R, T>
    where
        R: Accepts<T>,
    {
        Arc::clone(self.shared()).spawn_task_async(task, None)
    }

    /// Hands over every task of an iterator, in its order: see
    /// [`WorkerPool::submit_batch`](pool_core::WorkerPool::submit_batch). The strategy chooses for
    /// each, so each costs what a [`submit`](Self::submit) does: that a lock is taken, and is decided whom to
    /// wake, once for many, is a single pool's.
    pub fn submit_batch<I>(&self, tasks: I) -> Result<usize, BatchError<I::IntoIter>>
    where
        I: IntoIterator,
        R: Accepts<I::Item>,
    {
        submit_batch(self.shared(), tasks.into_iter(), self.on_full())
    }

    /// As [`submit_batch`](Self::submit_batch), but takes what there is room for and refuses the
    /// rest.
    pub fn try_submit_batch<I>(&self, tasks: I) -> Result<usize, BatchError<I::IntoIter>>
    where
        I: IntoIterator,
        R: Accepts<I::Item>,
    {
        submit_batch(self.shared(), tasks.into_iter(), OnFull::Refuse)
    }
}

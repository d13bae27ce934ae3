//! `MultiPool`: any closure is a task.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pool_core::internals::Patience;
use pool_core::{Closures, JoinHandle, SubmitError};

use crate::enter::Enter;
use crate::multi::{MultiWorkerPool, WeakMultiWorkerPool};
use crate::shared::Answer;

/// Several pools of closures behind one face.
///
/// ```
/// use multi_pool::MultiPool;
/// use pool_core::Pool;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
///
/// let pool = MultiPool::builder(Pool::builder().capacity(2)).pools(4).build()?;
/// let sum = Arc::new(AtomicU64::new(0));
/// for number in 0..1000 {
///     let sum = Arc::clone(&sum);
///     // Blocks while all eight workers are busy.
///     pool.submit(move || _ = sum.fetch_add(number, Ordering::Relaxed))?;
/// }
/// pool.wait_idle()?;
/// assert_eq!(sum.load(Ordering::Relaxed), 499_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type MultiPool = MultiWorkerPool<Closures>;

/// A [`MultiPool`]'s handle that keeps nothing open.
pub type WeakMultiPool = WeakMultiWorkerPool<Closures>;

impl MultiPool {
    fn submit_with<F>(&self, task: F, patience: Patience) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let answer = self.shared().submit(Closures::plain(task), patience);
        answer
            .map(|_| ())
            .map_err(|refusal| refusal.map(Closures::closure_of))
    }

    fn spawn_with<F, T>(&self, task: F, patience: Patience) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (entry, spawned) = Closures::spawned(task, self.shared().first());
        let answer = self.shared().submit(entry, patience);
        let pool = *answer.as_ref().unwrap_or(&0);
        let handle = spawned.settle(answer.map(|_| ()))?;
        Ok(self.shared().handle_of(pool, handle))
    }

    /// Hands a task over, to be run and forgotten. Waits while every pool is full; whichever
    /// frees room first takes it.
    ///
    /// On a worker of any of the pools it is run in place instead (see
    /// [`WithinWorker`](pool_core::WithinWorker)). May block for as long as starting a thread takes.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    #[doc(alias = "Submit")]
    pub fn submit<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_with(task, self.patience())
    }

    /// As [`submit`](Self::submit), but refuses if every pool is full. Never waits for room.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_submit<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_with(task, Patience::None)
    }

    /// As [`submit`](Self::submit), but waits at most for so long.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_timeout<F>(&self, task: F, timeout: Duration) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_with(task, self.patience_of(timeout))
    }

    /// As [`submit`](Self::submit), but waits at most until then.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_deadline<F>(&self, task: F, deadline: Instant) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit_with(task, Patience::Until(Some(deadline)))
    }

    /// As [`submit`](Self::submit), as a future: it resolves once a pool has accepted it.
    ///
    /// Futures and threads stand in one order. Nothing happens before the first poll; after it
    /// the future need not be polled again. Dropping it takes back what has not been accepted. It
    /// never runs in place. Works under any runtime.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_async<F>(
        &self,
        task: F,
    ) -> impl Future<Output = Result<(), SubmitError<F>>> + Send + Unpin + use<F>
    where
        F: FnOnce() + Send + 'static,
    {
        let entry = Closures::plain(task);
        Enter::new(
            Arc::clone(self.shared()),
            entry,
            |answer: Answer<Closures>| {
                answer
                    .map(|_| ())
                    .map_err(|refusal| refusal.map(Closures::closure_of))
            },
        )
    }

    /// Hands a task over and returns a handle to its value. Waits as
    /// [`submit`](Self::submit) does. Costs one allocation.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn<F, T>(&self, task: F) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(task, self.patience())
    }

    /// As [`spawn`](Self::spawn), but refuses if every pool is full. Never waits for room.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_spawn<F, T>(&self, task: F) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(task, Patience::None)
    }

    /// As [`spawn`](Self::spawn), but waits at most for so long.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_timeout<F, T>(
        &self,
        task: F,
        timeout: Duration,
    ) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(task, self.patience_of(timeout))
    }

    /// As [`spawn`](Self::spawn), but waits at most until then.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_deadline<F, T>(
        &self,
        task: F,
        deadline: Instant,
    ) -> Result<JoinHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(task, Patience::Until(Some(deadline)))
    }

    /// As [`spawn`](Self::spawn), as a future that resolves to the handle.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_async<F, T>(
        &self,
        task: F,
    ) -> impl Future<Output = Result<JoinHandle<T>, SubmitError<F>>> + Send + Unpin + use<F, T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (entry, spawned) = Closures::spawned(task, self.shared().first());
        let shared = Arc::clone(self.shared());
        Enter::new(
            Arc::clone(self.shared()),
            entry,
            move |answer: Answer<Closures>| {
                let pool = *answer.as_ref().unwrap_or(&0);
                let handle = spawned.settle(answer.map(|_| ()))?;
                Ok(shared.handle_of(pool, handle))
            },
        )
    }

    /// Releases, and takes out the tasks that have not started: their number. What they captured
    /// is dropped on this thread, and their handles end with `Released`.
    ///
    /// Meanwhile this thread counts as an own worker: a capture whose drop joins another task that was
    /// taken out runs it in place, and one that waits for rest or for the end is refused.
    pub fn release_now(&self) -> usize {
        self.shared().release_now(|()| {})
    }
}

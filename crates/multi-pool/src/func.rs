//! `MultiFuncPool`: one function, many arguments.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pool_core::internals::Patience;
use pool_core::{Func, JoinHandle, SubmitError};

use crate::enter::Enter;
use crate::multi::{MultiWorkerPool, WeakMultiWorkerPool};
use crate::shared::Answer;

/// Several pools of one function behind one face.
///
/// ```
/// use multi_pool::MultiFuncPool;
/// use pool_core::FuncPool;
///
/// let each = FuncPool::builder(|n: u64| n * n).capacity(1).queue_depth(100);
/// let squares = MultiFuncPool::builder(each).pools(2).build()?;
/// let handles: Vec<_> = (1..=10).map(|n| squares.spawn(n)).collect::<Result<_, _>>()?;
/// let mut sum = 0;
/// for handle in handles {
///     sum += handle.join()?;
/// }
/// assert_eq!(sum, 385);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "MultiPoolWithFunc")]
#[doc(alias = "MultiPoolWithFuncGeneric")]
pub type MultiFuncPool<T, R = ()> = MultiWorkerPool<Func<T, R>>;

/// A [`MultiFuncPool`]'s handle that keeps nothing open.
pub type WeakMultiFuncPool<T, R = ()> = WeakMultiWorkerPool<Func<T, R>>;

impl<T: Send + 'static, R: Send + 'static> MultiFuncPool<T, R> {
    fn submit_with(&self, argument: T, patience: Patience) -> Result<(), SubmitError<T>> {
        let answer = self.shared().submit(Func::plain(argument), patience);
        answer
            .map(|_| ())
            .map_err(|refusal| refusal.map(Func::argument_of))
    }

    fn spawn_with(&self, argument: T, patience: Patience) -> Result<JoinHandle<R>, SubmitError<T>> {
        let (job, handle) = Func::spawned(argument, self.shared().first());
        let answer = self.shared().submit(job, patience);
        let pool = answer.map_err(|refusal| refusal.map(Func::argument_of))?;
        Ok(self.shared().handle_of(pool, handle))
    }

    /// Hands an argument over, to be called with and forgotten. Waits while every pool is full; whichever
    /// frees room first takes it.
    ///
    /// On a worker of any of the pools it is run in place instead (see
    /// [`WithinWorker`](pool_core::WithinWorker)). May block for as long as starting a thread takes.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    #[doc(alias = "Invoke")]
    pub fn submit(&self, argument: T) -> Result<(), SubmitError<T>> {
        self.submit_with(argument, self.patience())
    }

    /// As [`submit`](Self::submit), but refuses if every pool is full. Never waits for room.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn try_submit(&self, argument: T) -> Result<(), SubmitError<T>> {
        self.submit_with(argument, Patience::None)
    }

    /// As [`submit`](Self::submit), but waits at most for so long.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn submit_timeout(&self, argument: T, timeout: Duration) -> Result<(), SubmitError<T>> {
        self.submit_with(argument, self.patience_of(timeout))
    }

    /// As [`submit`](Self::submit), but waits at most until then.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn submit_deadline(&self, argument: T, deadline: Instant) -> Result<(), SubmitError<T>> {
        self.submit_with(argument, Patience::Until(Some(deadline)))
    }

    /// As [`submit`](Self::submit), as a future: it resolves once a pool has accepted it.
    ///
    /// Futures and threads stand in one order. Nothing happens before the first poll; after it
    /// the future need not be polled again. Dropping it takes back what has not been accepted. It
    /// never runs in place. Works under any runtime.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn submit_async(
        &self,
        argument: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + Unpin + use<T, R> {
        let job = Func::plain(argument);
        Enter::new(
            Arc::clone(self.shared()),
            job,
            |answer: Answer<Func<T, R>>| {
                answer
                    .map(|_| ())
                    .map_err(|refusal| refusal.map(Func::argument_of))
            },
        )
    }

    /// Hands an argument over and returns a handle to the value. Waits as
    /// [`submit`](Self::submit) does. Costs one allocation.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn spawn(&self, argument: T) -> Result<JoinHandle<R>, SubmitError<T>> {
        self.spawn_with(argument, self.patience())
    }

    /// As [`spawn`](Self::spawn), but refuses if every pool is full. Never waits for room.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn try_spawn(&self, argument: T) -> Result<JoinHandle<R>, SubmitError<T>> {
        self.spawn_with(argument, Patience::None)
    }

    /// As [`spawn`](Self::spawn), but waits at most for so long.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn spawn_timeout(
        &self,
        argument: T,
        timeout: Duration,
    ) -> Result<JoinHandle<R>, SubmitError<T>> {
        self.spawn_with(argument, self.patience_of(timeout))
    }

    /// As [`spawn`](Self::spawn), but waits at most until then.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn spawn_deadline(
        &self,
        argument: T,
        deadline: Instant,
    ) -> Result<JoinHandle<R>, SubmitError<T>> {
        self.spawn_with(argument, Patience::Until(Some(deadline)))
    }

    /// As [`spawn`](Self::spawn), as a future that resolves to the handle.
    ///
    /// # Errors
    /// The argument comes back: see [`SubmitError`].
    pub fn spawn_async(
        &self,
        argument: T,
    ) -> impl Future<Output = Result<JoinHandle<R>, SubmitError<T>>> + Send + Unpin + use<T, R>
    {
        let (job, handle) = Func::spawned(argument, self.shared().first());
        let shared = Arc::clone(self.shared());
        Enter::new(
            Arc::clone(self.shared()),
            job,
            move |answer: Answer<Func<T, R>>| {
                let pool = answer.map_err(|refusal| refusal.map(Func::argument_of))?;
                Ok(shared.handle_of(pool, handle))
            },
        )
    }

    /// Releases, and takes out the arguments that have not been called with, pool after pool. Their
    /// handles end with `Released`.
    pub fn release_now(&self) -> Vec<T> {
        let mut items = Vec::new();
        self.shared().release_now(|item| items.push(item));
        items
    }
}

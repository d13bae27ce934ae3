//! Futures of calls that block, and the threads that make these calls.
//!
//! The calls of a store block on purpose. So an async call is a task of a [`Pool`], whose workers are the **call threads**.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pool_core::{Builder, Closures, JoinError, JoinHandle, Pool, QueueDepth, SubmitError};
use sync_shim::thread::become_service;

use crate::error::{ErrorKind, Result, StoreError};
use crate::threads::clock::SharedClock;

/// Maximum number of threads of a [`Threads`](crate::Threads) that make async calls. More than one, so that a call whose connection
/// hangs does not block all others.
pub const CALL_THREADS: usize = 2;

/// How long a thread for async calls waits for the next call before it ends.
pub const CALL_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Future of a call of the store: see [`DurableQueue::push_async`](crate::DurableQueue::push_async).
///
/// It can be polled by any runtime. The call is requested by the first poll: a future that is never polled does
/// nothing. A thread of the queue's [`Threads`](crate::Threads) makes the call, so no poll blocks. A panic of the store is an error of the
/// kind [`ErrorKind::Other`] which [may have been carried out](StoreError::carried_out).
///
/// Dropping the future before its call has started withdraws the call: nothing is pushed or changed. Afterwards
/// the call is carried out, and its result is lost. The caller cannot tell which. A program that drops futures,
/// for example by a timeout, and then repeats the push should use a key
/// ([`push_keyed_async`](crate::DurableQueue::push_keyed_async)), so that the repetition creates no second job.
///
/// It does not keep the queue open.
///
/// # Panics
/// If it is polled again after it was ready.
#[must_use = "a future does nothing until it is polled"]
pub struct CallFuture<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> CallFuture<T> {
    pub(crate) fn new(call: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Box::pin(call))
    }
}

impl<T> Future for CallFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.0.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for CallFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallFuture").finish_non_exhaustive()
    }
}

/// Returns the settings of the call threads: at most [`CALL_THREADS`], behind which any number of calls waits.
pub(crate) fn call_threads(clock: SharedClock) -> Builder<Closures> {
    Pool::builder()
        .capacity(CALL_THREADS)
        .queue_depth(QueueDepth::Unlimited)
        .max_compensation(0)
        .keep_alive(CALL_KEEP_ALIVE)
        .start_hook(become_service)
        .thread_name(|_| "durable-calls".to_owned())
        .clock(clock)
}

/// Makes a call on a call thread. Dropped before the call has started, the future withdraws it.
pub(crate) async fn call_on<R: Send + 'static>(
    threads: &Pool,
    call: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    let answer = Withdraws(threads.spawn(call).map_err(refused)?);
    answer.await.unwrap_or_else(|lost| Err(no_answer(lost)))
}

/// Why a call thread does not take a call.
pub(crate) fn refused<T>(refused: SubmitError<T>) -> StoreError {
    match refused.without_task() {
        SubmitError::NoThread((), error) => StoreError::new(ErrorKind::NoThread).with_source(error),
        SubmitError::Forked(()) => StoreError::new(ErrorKind::Forked),
        other => StoreError::new(ErrorKind::Other).with_source(other),
    }
}

fn no_answer(lost: JoinError) -> StoreError {
    match lost {
        // In a forked child no answer comes.
        JoinError::Forked => StoreError::new(ErrorKind::Forked),
        other => StoreError::lost_answer(ErrorKind::Other).with_source(other),
    }
}

/// Cancels the task when it is dropped.
struct Withdraws<R: Send + 'static>(JoinHandle<R>);

impl<R: Send + 'static> Future for Withdraws<R> {
    type Output = Result<R, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<R: Send + 'static> Drop for Withdraws<R> {
    fn drop(&mut self) {
        // USER CODE: the drop of the last handle of the store.
        self.0.cancel();
    }
}

//! The operations that the cases need of an executor.

use std::future::Future;
use std::time::Duration;

pub const THREADS: usize = 2;

/// An executor that accepts futures from any thread. Clones are the same executor.
pub trait Peer: Clone + Send + Sync + 'static {
    type Handle<T: Send + 'static>: Send + 'static;

    /// Starts one, with a maximum number of live tasks or without.
    fn start(bound: Option<usize>) -> Self;

    /// Submits a task, and waits while the executor is full.
    fn submit(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send;

    /// Submits tasks from the calling thread.
    fn feed<F: Future<Output = ()> + Send + 'static>(&self, tasks: u32, make: impl Fn() -> F) {
        futures_lite::future::block_on(async {
            for _ in 0..tasks {
                self.submit(make()).await;
            }
        });
    }

    /// Blocks until all submitted tasks of an executor with a bound have ended.
    fn wait_idle(&self);

    /// Starts a task without a bound.
    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T>;

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> impl Future<Output = T> + Send;

    /// Like `join`, for a thread.
    fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        futures_lite::future::block_on(Self::join(handle))
    }

    fn cancel(handle: Self::Handle<()>);

    /// Begins when it is first polled.
    fn sleep(time: Duration) -> impl Future<Output = ()> + Send;

    fn yield_now() -> impl Future<Output = ()> + Send;
}

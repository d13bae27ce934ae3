//! `threadpool`.

use threadpool::ThreadPool;

use crate::peer::{Peer, Shape};

pub struct Threadpool(ThreadPool);

impl Peer for Threadpool {
    type Inner = ThreadPool;

    fn start(shape: Shape) -> Self {
        Self(ThreadPool::new(shape.threads as usize))
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.execute(task);
    }

    fn inner(&self) -> ThreadPool {
        self.0.clone()
    }

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>(inner: &ThreadPool, task: F) {
        inner.execute(task);
    }
}

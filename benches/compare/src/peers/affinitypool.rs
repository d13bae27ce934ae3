//! `affinitypool`. All its calls return futures, and a dropped future cancels its task.

use std::mem::forget;
use std::sync::Arc;

use affinitypool::{Builder, Threadpool};
use futures_lite::future::block_on;

use crate::peer::{Peer, Shape};

pub struct Affinitypool(Arc<Threadpool>);

impl Peer for Affinitypool {
    type Inner = Arc<Threadpool>;

    fn start(shape: Shape) -> Self {
        let pool = Builder::new().worker_threads(shape.threads as usize);
        Self(Arc::new(pool.build()))
    }

    /// Forgetting the future is the closest to a detached task. It saves the pool the end of the
    /// future, and leaks it, so the memory of this peer means nothing here.
    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        forget(self.0.spawn(task));
    }

    fn inner(&self) -> Self::Inner {
        Arc::clone(&self.0)
    }

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>(inner: &Self::Inner, task: F) {
        forget(inner.spawn(task));
    }

    #[inline]
    fn ask<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, task: F) -> T {
        block_on(self.0.spawn(task))
    }
}

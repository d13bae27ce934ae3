//! `rusty_pool`.

use std::time::Duration;

use rusty_pool::{Builder, ThreadPool};

use crate::peer::{Elastic, Peer, Shape};

pub struct RustyPool(ThreadPool);

impl Peer for RustyPool {
    type Inner = ThreadPool;

    fn start(shape: Shape) -> Self {
        let threads = shape.threads as usize;
        Self(Builder::new().core_size(threads).max_size(threads).build())
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

    #[inline]
    fn ask<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, task: F) -> T {
        self.0.evaluate(task).await_complete()
    }
}

impl Elastic for RustyPool {
    fn elastic(most: u32, keep_alive: Duration) -> Self {
        let pool = Builder::new()
            .core_size(0)
            .max_size(most as usize)
            .keep_alive(keep_alive)
            .build();
        Self(pool)
    }
}

//! `tokio`: `spawn` of a future without an await, and `spawn_blocking`.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::peer::{Elastic, Peer, Shape};

pub struct Spawn(Runtime);

impl Peer for Spawn {
    type Inner = ();

    fn start(shape: Shape) -> Self {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(shape.threads as usize).build();
        Self(runtime.expect("threads can be started"))
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.spawn(async move { task() });
    }

    fn inner(&self) {}

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>((): &(), task: F) {
        tokio::spawn(async move { task() });
    }

    #[inline]
    fn ask<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, task: F) -> T {
        let handle = self.0.spawn(async move { task() });
        self.0.block_on(handle).expect("the task does not panic")
    }
}

pub struct SpawnBlocking(Runtime);

impl SpawnBlocking {
    fn with(threads: u32, keep_alive: Option<Duration>) -> Self {
        let mut builder = Builder::new_multi_thread();
        // One async worker, which has nothing to do.
        builder
            .worker_threads(1)
            .max_blocking_threads(threads as usize);
        if let Some(keep_alive) = keep_alive {
            builder.thread_keep_alive(keep_alive);
        }
        Self(builder.build().expect("threads can be started"))
    }
}

impl Peer for SpawnBlocking {
    type Inner = ();

    fn start(shape: Shape) -> Self {
        Self::with(shape.threads, None)
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.spawn_blocking(task);
    }

    fn inner(&self) {}

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>((): &(), task: F) {
        tokio::task::spawn_blocking(task);
    }

    #[inline]
    fn ask<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, task: F) -> T {
        let handle = self.0.spawn_blocking(task);
        self.0.block_on(handle).expect("the task does not panic")
    }
}

impl Elastic for SpawnBlocking {
    fn elastic(most: u32, keep_alive: Duration) -> Self {
        Self::with(most, Some(keep_alive))
    }
}

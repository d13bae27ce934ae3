//! `rayon`: `ThreadPool::spawn`, and the free function `spawn` inside tasks.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::peer::{Peer, Shape};

pub struct Rayon(ThreadPool);

pub fn pool(threads: u32) -> ThreadPool {
    let pool = ThreadPoolBuilder::new().num_threads(threads as usize);
    pool.build().expect("threads can be started")
}

impl Peer for Rayon {
    type Inner = ();

    fn start(shape: Shape) -> Self {
        Self(pool(shape.threads))
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.spawn(task);
    }

    fn inner(&self) {}

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>((): &(), task: F) {
        rayon::spawn(task);
    }
}

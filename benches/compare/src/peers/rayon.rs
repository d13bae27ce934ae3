//! `rayon`: `spawn` on a pool of its own, and the free `spawn` inside.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::peer::{Peer, Shape};

pub struct Rayon(ThreadPool);

/// A pool of so many threads.
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

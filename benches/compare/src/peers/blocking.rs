//! `blocking`: `unblock` on its only, global pool.

use std::num::NonZeroUsize;

use blocking::{set_max_blocking_threads, unblock};
use futures_lite::future::block_on;

use crate::peer::{Peer, Shape};

pub struct Blocking;

impl Peer for Blocking {
    type Inner = ();

    fn start(shape: Shape) -> Self {
        let threads = NonZeroUsize::new(shape.threads as usize);
        set_max_blocking_threads(threads.expect("pools have threads"));
        Self
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        unblock(task).detach();
    }

    fn inner(&self) {}

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>((): &(), task: F) {
        unblock(task).detach();
    }

    #[inline]
    fn ask<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, task: F) -> T {
        block_on(unblock(task))
    }
}

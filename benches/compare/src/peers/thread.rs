//! No pool: `std::thread::spawn` for each task.

use std::thread;

use crate::peer::{Peer, Shape};

pub struct Thread;

impl Peer for Thread {
    type Inner = ();

    fn start(_shape: Shape) -> Self {
        Self
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        thread::spawn(task);
    }

    fn inner(&self) {}

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>((): &(), task: F) {
        thread::spawn(task);
    }

    #[inline]
    fn ask<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, task: F) -> T {
        thread::spawn(task).join().expect("the task does not panic")
    }
}

//! A gate for futures.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Futures wait for it until it is opened. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Latch(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    is_open: bool,
    arrived: usize,
    waiting: Vec<Waker>,
}

impl Latch {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn open(&self) {
        let waiting = {
            let mut inner = self.0.lock().unwrap();
            inner.is_open = true;
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) async fn wait(&self) {
        self.0.lock().unwrap().arrived += 1;
        poll_fn(|context| {
            let mut inner = self.0.lock().unwrap();
            if inner.is_open {
                return Poll::Ready(());
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Blocks until `count` futures have begun to wait.
    pub(crate) fn wait_for_arrivals(&self, count: usize) {
        while self.0.lock().unwrap().arrived < count {
            std::thread::yield_now();
        }
    }
}

//! Models of the pool of futures. Each names the racing parties and the harm that must not happen.
//!
//! Every model waits for its work before it releases the pool, so that the release cannot hide a lost wake-up. No time
//! passes unless a model advances its clock.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a model that fails is to panic")]

mod admission;
mod group;
mod life;
mod loans;
mod tasks;
mod timers;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_pool::{AsyncPool, DropPolicy};
use sync_shim::Mutex;
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::check;

fn pool(workers: usize, capacity: usize) -> AsyncPool {
    AsyncPool::builder()
        .workers(workers)
        .capacity(capacity)
        .drop_policy(DropPolicy::Drain)
        .build()
        .unwrap()
}

/// Ends the pool. The model has already waited for its work.
fn end(pool: &AsyncPool) {
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.in_flight, stats.reserved, stats.waiting), (0, 0, 0));
    let ended = stats.completed + stats.panicked + stats.cancelled + stats.released;
    assert_eq!(stats.submitted, ended);
}

/// Counts events. `Relaxed`: read after the pool has synchronized the threads.
#[derive(Clone)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// A value whose drop counts.
    fn on_drop(&self) -> CountsDrop {
        CountsDrop(self.clone())
    }
}

struct CountsDrop(Count);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// A future that is ready once another thread has said so, and the waker that the thread calls.
struct Signal(Mutex<(bool, Option<Waker>)>);

impl Signal {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((false, None))))
    }

    async fn wait(self: Arc<Self>) {
        poll_fn(|context| {
            let mut signal = self.0.lock();
            if signal.0 {
                return Poll::Ready(());
            }
            signal.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn set(&self) {
        let waker = {
            let mut signal = self.0.lock();
            signal.0 = true;
            signal.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

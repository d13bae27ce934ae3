//! Helpers of several modules. None of them waits for a duration.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt, MultiWorkerPool};
use pool_core::{Pool, Runner};
use testkit::Gate;

/// Yields until the condition holds. Only the watchdog limits the wait.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// A multi-pool with default settings, in turn.
pub(crate) fn multi(pools: usize, capacity: usize) -> MultiPool {
    let each = Pool::builder().capacity(capacity);
    MultiBuilder::new(each).pools(pools).build().unwrap()
}

/// Starts a task on a free worker, which it holds until the gate is opened.
pub(crate) fn hold(pool: &MultiPool) -> Gate {
    let gate = Gate::new();
    let held = gate.clone();
    pool.try_submit(move || held.wait()).unwrap();
    gate.wait_for_arrivals(1);
    gate
}

/// Holds `count` workers, one after the other.
pub(crate) fn hold_all(pool: &MultiPool, count: usize) -> Vec<Gate> {
    (0..count).map(|_| hold(pool)).collect()
}

/// The index of the calling worker's pool. Threads are named NAME-POOL-WORKER.
pub(crate) fn here() -> usize {
    let thread = thread::current();
    let mut parts = thread.name().unwrap().rsplit('-');
    parts.nth(1).unwrap().parse().unwrap()
}

/// The index of the pool that runs the next task.
pub(crate) fn next(pool: &MultiPool) -> usize {
    pool.spawn(here).unwrap().join().unwrap()
}

/// A thread that makes the call and already waits in the wait queues of all pools.
pub(crate) fn enter_lines<R, T>(
    pool: &MultiWorkerPool<R>,
    call: impl FnOnce(&MultiWorkerPool<R>) -> T + Send + 'static,
) -> JoinHandle<T>
where
    R: Runner,
    T: Send + 'static,
{
    let before = pool.waiting();
    let caller = {
        let pool = pool.clone();
        thread::spawn(move || call(&pool))
    };
    until(|| pool.waiting() > before);
    // A waiter is counted before it enrols in the wait queues, one after the other.
    until(|| (0..pool.pools()).all(|index| pool.waiting_of(index) == Ok(pool.waiting())));
    caller
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A list of events in order. Clones share the list.
#[derive(Debug)]
pub(crate) struct Journal<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone + Send + 'static> Journal<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    /// A task that appends an entry.
    pub(crate) fn writer(&self, entry: T) -> impl FnOnce() + Send + 'static + use<T> {
        let journal = self.clone();
        move || journal.write(entry)
    }

    pub(crate) fn write(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

impl<T> Clone for Journal<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Releases the pools and waits for their end.
pub(crate) fn end<R: Runner>(pool: &MultiWorkerPool<R>) {
    pool.release();
    pool.wait_released().unwrap();
}

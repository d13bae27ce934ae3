//! What several modules of these tests need. Nothing here waits for time.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

use multi_pool::{MultiPool, MultiPoolExt, MultiWorkerPool};
use pool_core::{Pool, Runner};
use testkit::Gate;

/// Lets the others run until it is so. The watchdog is the only bound.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// So many pools with nothing but a capacity, in turn.
pub(crate) fn multi(pools: usize, capacity: usize) -> MultiPool {
    let each = Pool::builder().capacity(capacity);
    MultiPool::builder(each).pools(pools).build().unwrap()
}

/// Puts a task onto a worker of a pool that has one free, where it stays until the gate is opened.
pub(crate) fn hold(pool: &MultiPool) -> Gate {
    let gate = Gate::new();
    let held = gate.clone();
    pool.try_submit(move || held.wait()).unwrap();
    gate.wait_for_arrivals(1);
    gate
}

/// Holds one worker after the other.
pub(crate) fn hold_all(pool: &MultiPool, count: usize) -> Vec<Gate> {
    (0..count).map(|_| hold(pool)).collect()
}

/// Which pool the calling worker belongs to: its thread is called NAME-POOL-WORKER.
pub(crate) fn here() -> usize {
    let thread = thread::current();
    let mut parts = thread.name().unwrap().rsplit('-');
    parts.nth(1).unwrap().parse().unwrap()
}

/// Which pool runs the next task, which is not waited for by others.
pub(crate) fn next(pool: &MultiPool) -> usize {
    pool.spawn(here).unwrap().join().unwrap()
}

/// A thread that makes a call of which it is known that it waits in the lines, where it is by now.
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
    // It is counted before it has its places, which it takes one after the other.
    until(|| (0..pool.pools()).all(|index| pool.waiting_of(index) == Ok(pool.waiting())));
    caller
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

/// Polls once.
pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// What happened, in order. Clones write into the same one.
#[derive(Debug)]
pub(crate) struct Journal<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone + Send + 'static> Journal<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    /// A task that makes an entry.
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

/// Waits until the pools have ended, having released them.
pub(crate) fn end<R: Runner>(pool: &MultiWorkerPool<R>) {
    pool.release();
    pool.wait_released().unwrap();
}

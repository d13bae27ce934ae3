//! Helpers of several modules. None of them waits for a duration.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use pool_core::{Clock, ManualClock, Pool, Runner, SubmitError, WorkerPool};
use sync_shim::{Alarm, Parker};
use testkit::Gate;

/// Yields until the condition holds. Only the watchdog limits the wait.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// A pool with default settings and this capacity.
pub(crate) fn pool(capacity: usize) -> Pool {
    Pool::builder().capacity(capacity).build().unwrap()
}

/// A pool with one worker and a queue of this depth.
pub(crate) fn queueing(depth: usize) -> Pool {
    Pool::builder()
        .capacity(1)
        .queue_depth(depth)
        .build()
        .unwrap()
}

/// Starts `count` tasks, each on its own worker, which wait until the gate is opened.
pub(crate) fn hold(pool: &Pool, count: usize) -> Gate {
    let gate = Gate::new();
    for _ in 0..count {
        let gate = gate.clone();
        pool.try_submit(move || gate.wait()).unwrap();
    }
    gate.wait_for_arrivals(count);
    gate
}

/// A thread that submits `task` and already waits in the wait queue.
pub(crate) fn wait_in_line<F>(pool: &Pool, task: F) -> JoinHandle<Result<(), SubmitError<F>>>
where
    F: FnOnce() + Send + 'static,
{
    enter_line(pool, move |pool| pool.submit(task))
}

/// A thread that makes the call and already waits in the wait queue.
pub(crate) fn enter_line<R, T>(
    pool: &WorkerPool<R>,
    call: impl FnOnce(&WorkerPool<R>) -> T + Send + 'static,
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
    caller
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A clock without an alarm thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct WithoutAlarms(ManualClock);

impl WithoutAlarms {
    pub(crate) fn advance(&self, by: std::time::Duration) {
        self.0.advance(by);
    }
}

impl Clock for WithoutAlarms {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        Err(io::Error::other("no thread"))
    }
}

/// A list of events in order. Clones share the list.
#[derive(Debug)]
pub(crate) struct Journal<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone + Send + 'static> Journal<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    pub(crate) fn write(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    /// A task that appends an entry.
    pub(crate) fn writer(&self, entry: T) -> impl FnOnce() + Send + 'static + use<T> {
        let journal = self.clone();
        move || journal.write(entry)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
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

/// Releases the pool and waits for its end.
pub(crate) fn end<R: Runner>(pool: &WorkerPool<R>) {
    pool.release();
    pool.wait_released().unwrap();
}

//! The interface of a compared pool.
//!
//! All of it is generic and nothing is boxed, so that a peer's figures contain only its own cost.

use std::time::Duration;

/// The size of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub threads: u32,
    /// The number of accepted tasks that may wait; `None` is unlimited. Ignored by pools without a
    /// limit.
    pub depth: Option<u32>,
}

impl Shape {
    pub fn unlimited(threads: u32) -> Self {
        Self {
            threads,
            depth: None,
        }
    }

    pub fn bounded(threads: u32, depth: u32) -> Self {
        Self {
            threads,
            depth: Some(depth),
        }
    }
}

/// A pool in its idiomatic configuration.
pub trait Peer: Send + Sync + Sized + 'static {
    /// The handle by which a task reaches its own pool.
    type Inner: Clone + Send + 'static;

    fn start(shape: Shape) -> Self;

    /// Submits a task and forgets it. Waits if the pool is bounded and full.
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F);

    fn inner(&self) -> Self::Inner;

    /// Submits from inside a task.
    fn submit_inner<F: FnOnce() + Send + 'static>(inner: &Self::Inner, task: F);

    /// Runs the task on the pool and waits for its value. For pools without handles, the usual code
    /// of their users.
    fn ask<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, task: F) -> T {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        self.submit(move || drop(sender.send(task())));
        receiver.recv().expect("the task does not panic")
    }
}

/// A pool that can refuse tasks.
pub trait Refusing: Peer {
    /// Submits a task at once, or drops it and returns `false`.
    fn try_submit<F: FnOnce() + Send + 'static>(&self, task: F) -> bool;
}

/// A pool that starts threads as needed and ends idle ones.
pub trait Elastic: Peer {
    /// Creates a pool of up to `most` threads, which end after `keep_alive`.
    fn elastic(most: u32, keep_alive: Duration) -> Self;
}

/// A measurement that works with any pool.
pub trait Job {
    type Out;
    fn run<P: Peer>(self, peer: &'static P) -> Self::Out;
}

/// The same for pools that can refuse.
pub trait RefusingJob {
    type Out;
    fn run<P: Refusing>(self, peer: &'static P) -> Self::Out;
}

/// The same for elastic pools, which the measurement creates itself.
pub trait ElasticJob {
    type Out;
    fn run<P: Elastic>(self) -> Self::Out;
}

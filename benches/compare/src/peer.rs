//! What a pool must do to be compared.
//!
//! Everything is generic and nothing boxed here: a peer's figure holds only what it does itself.

use std::time::Duration;

/// How large a pool is made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub threads: u32,
    /// How many accepted tasks may wait; `None` is without bound. Pools that know no bound have
    /// none, whatever this says.
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
    /// How a task reaches the pool it runs on.
    type Inner: Clone + Send + 'static;

    fn start(shape: Shape) -> Self;

    /// Hands a task over and forgets it. Waits where the pool is bounded and full.
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F);

    fn inner(&self) -> Self::Inner;

    /// Submits from inside a task.
    fn submit_inner<F: FnOnce() + Send + 'static>(inner: &Self::Inner, task: F);

    /// Runs it on the pool and waits for its value. For pools without handles this is what their
    /// users write.
    fn ask<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, task: F) -> T {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        self.submit(move || drop(sender.send(task())));
        receiver.recv().expect("the task does not panic")
    }
}

/// A pool that can say no.
pub trait Refusing: Peer {
    /// Hands a task over at once, or drops it and says `false`.
    fn try_submit<F: FnOnce() + Send + 'static>(&self, task: F) -> bool;
}

/// A pool that starts threads as they are needed, and ends those that idle.
pub trait Elastic: Peer {
    /// Up to so many threads, of which idle ones end after `keep_alive`.
    fn elastic(most: u32, keep_alive: Duration) -> Self;
}

/// Something to do with a pool of any kind.
pub trait Job {
    type Out;
    fn run<P: Peer>(self, peer: &'static P) -> Self::Out;
}

/// The same for pools that can refuse.
pub trait RefusingJob {
    type Out;
    fn run<P: Refusing>(self, peer: &'static P) -> Self::Out;
}

/// The same for elastic pools, which the job makes itself.
pub trait ElasticJob {
    type Out;
    fn run<P: Elastic>(self) -> Self::Out;
}

//! `executors`: its work-stealing pool and its pool on a channel.

use executors::Executor;
use executors::crossbeam_channel_pool::ThreadPool as ChannelPool;
use executors::crossbeam_workstealing_pool::{ThreadPool, pool_with_auto_parker};
use executors::parker::DynParker;

use crate::peer::{Peer, Shape};

pub struct Workstealing(ThreadPool<DynParker>);

impl Peer for Workstealing {
    type Inner = ThreadPool<DynParker>;

    fn start(shape: Shape) -> Self {
        Self(pool_with_auto_parker(shape.threads as usize))
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.execute(task);
    }

    fn inner(&self) -> Self::Inner {
        self.0.clone()
    }

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>(inner: &Self::Inner, task: F) {
        inner.execute(task);
    }
}

pub struct Channel(ChannelPool);

impl Peer for Channel {
    type Inner = ChannelPool;

    fn start(shape: Shape) -> Self {
        Self(ChannelPool::new(shape.threads as usize))
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.execute(task);
    }

    fn inner(&self) -> Self::Inner {
        self.0.clone()
    }

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>(inner: &Self::Inner, task: F) {
        inner.execute(task);
    }
}

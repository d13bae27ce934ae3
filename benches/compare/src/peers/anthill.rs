//! Our `pool_core::Pool`.

use std::time::Duration;

use pool_core::{Pool, QueueDepth};

use crate::peer::{Elastic, Peer, Refusing, Shape};

pub struct Anthill(Pool);

/// Converts the depth of a shape.
pub fn queue_depth(depth: Option<u32>) -> QueueDepth {
    depth.map_or(QueueDepth::Unlimited, |depth| {
        QueueDepth::Limited(depth as usize)
    })
}

impl Peer for Anthill {
    type Inner = Pool;

    fn start(shape: Shape) -> Self {
        let pool = Pool::builder()
            .capacity(shape.threads as usize)
            .queue_depth(queue_depth(shape.depth))
            .build();
        Self(pool.expect("the settings are valid"))
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.submit(task).expect("the pool is open");
    }

    fn inner(&self) -> Pool {
        self.0.clone()
    }

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>(inner: &Pool, task: F) {
        inner.submit(task).expect("the pool is open");
    }

    #[inline]
    fn ask<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, task: F) -> T {
        let handle = self.0.spawn(task).expect("the pool is open");
        handle.join().expect("the task does not panic")
    }
}

impl Refusing for Anthill {
    #[inline]
    fn try_submit<F: FnOnce() + Send + 'static>(&self, task: F) -> bool {
        self.0.try_submit(task).is_ok()
    }
}

impl Elastic for Anthill {
    fn elastic(most: u32, keep_alive: Duration) -> Self {
        let pool = Pool::builder()
            .capacity(most as usize)
            .queue_depth(QueueDepth::Unlimited)
            .keep_alive(keep_alive)
            .build();
        Self(pool.expect("the settings are valid"))
    }
}

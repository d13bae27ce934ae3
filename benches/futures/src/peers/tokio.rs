//! `tokio`: a semaphore, and `spawn`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::peer::{Peer, THREADS};

#[derive(Clone)]
pub struct Tokio {
    runtime: Arc<Runtime>,
    room: Option<(Arc<Semaphore>, u32)>,
}

pub fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build();
    runtime.expect("threads can be started")
}

impl Peer for Tokio {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn start(bound: Option<usize>) -> Self {
        Self {
            runtime: Arc::new(runtime()),
            room: bound.map(|bound| {
                let count = u32::try_from(bound).expect("bounds are below 2^32");
                (Arc::new(Semaphore::new(bound)), count)
            }),
        }
    }

    async fn submit(&self, task: impl Future<Output = ()> + Send + 'static) {
        let Some((room, _)) = &self.room else {
            self.runtime.spawn(task);
            return;
        };
        let permit = Arc::clone(room).acquire_owned().await;
        let permit = permit.expect("the semaphore is not closed");
        self.runtime.spawn(async move {
            task.await;
            drop(permit);
        });
    }

    fn wait_idle(&self) {
        let (room, count) = self.room.as_ref().expect("it has a bound");
        let all = self.runtime.block_on(room.acquire_many(*count));
        drop(all.expect("the semaphore is not closed"));
    }

    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(task)
    }

    async fn join<T: Send + 'static>(handle: JoinHandle<T>) -> T {
        handle.await.expect("the task does not panic")
    }

    fn wait<T: Send + 'static>(&self, handle: JoinHandle<T>) -> T {
        self.runtime.block_on(Self::join(handle))
    }

    fn cancel(handle: JoinHandle<()>) {
        handle.abort();
    }

    async fn sleep(time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }
}

//! `async-pool`, alone and with the sockets of tokio.

use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_pool::{AsyncPool, Builder, Capacity, Futures, JoinHandle};

use crate::peer::{Peer, THREADS};

#[derive(Clone)]
pub struct Ours(AsyncPool);

fn builder(bound: Option<usize>) -> Builder<Futures> {
    let capacity = bound.map_or(Capacity::Unlimited, Capacity::Limited);
    AsyncPool::builder().workers(THREADS).capacity(capacity)
}

impl Peer for Ours {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn start(bound: Option<usize>) -> Self {
        Self(builder(bound).build().expect("threads can be started"))
    }

    async fn submit(&self, task: impl Future<Output = ()> + Send + 'static) {
        let accepted = self.0.submit_async(task).await;
        assert!(accepted.is_ok(), "the pool is not released");
    }

    fn feed<F: Future<Output = ()> + Send + 'static>(&self, tasks: u32, make: impl Fn() -> F) {
        for _ in 0..tasks {
            let accepted = self.0.submit(make());
            assert!(accepted.is_ok(), "the pool is not released");
        }
    }

    fn wait_idle(&self) {
        self.0.wait_idle().expect("it is not called on a worker");
    }

    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let handle = self.0.try_spawn(task).ok();
        handle.expect("the pool is neither full nor released")
    }

    async fn join<T: Send + 'static>(handle: JoinHandle<T>) -> T {
        handle.await.expect("the task does not panic")
    }

    fn wait<T: Send + 'static>(&self, handle: JoinHandle<T>) -> T {
        handle.join().expect("the task does not panic")
    }

    fn cancel(handle: JoinHandle<()>) {
        handle.cancel();
    }

    async fn sleep(time: Duration) {
        async_pool::sleep(time).await;
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        async_pool::yield_now()
    }
}

/// The pool whose workers enter a runtime of tokio, which has one thread for its driver.
#[derive(Clone)]
pub struct InTokio(Ours);

impl InTokio {
    pub fn start() -> Self {
        let driver = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let driver = Arc::new(driver.expect("tokio's driver can be started"));
        let handle = driver.handle().clone();
        thread::spawn(move || driver.block_on(std::future::pending::<()>()));
        let pool = builder(None)
            .around_worker(move |run| {
                let _entered = handle.enter();
                run();
            })
            .build();
        Self(Ours(pool.expect("threads can be started")))
    }

    pub fn pool(&self) -> &Ours {
        &self.0
    }
}

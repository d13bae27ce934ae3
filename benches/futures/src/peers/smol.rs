//! `async-executor` with the timers of `async-io` and the semaphore of `async-lock`, which `smol` consists of.

use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_executor::{Executor, Task};
use async_lock::Semaphore;

use crate::peer::{Peer, THREADS};

#[derive(Clone)]
pub struct Smol {
    executor: &'static Executor<'static>,
    room: Option<(Arc<Semaphore>, usize)>,
}

impl Peer for Smol {
    type Handle<T: Send + 'static> = Task<T>;

    fn start(bound: Option<usize>) -> Self {
        let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
        for _ in 0..THREADS {
            thread::spawn(|| {
                async_io::block_on(executor.run(std::future::pending::<()>()));
            });
        }
        Self {
            executor,
            room: bound.map(|bound| (Arc::new(Semaphore::new(bound)), bound)),
        }
    }

    async fn submit(&self, task: impl Future<Output = ()> + Send + 'static) {
        let Some((room, _)) = &self.room else {
            self.executor.spawn(task).detach();
            return;
        };
        let permit = room.acquire_arc().await;
        let task = async move {
            task.await;
            drop(permit);
        };
        self.executor.spawn(task).detach();
    }

    fn wait_idle(&self) {
        let (room, count) = self.room.as_ref().expect("it has a bound");
        futures_lite::future::block_on(async {
            for _ in 0..*count {
                room.acquire().await.forget();
            }
        });
        room.add_permits(*count);
    }

    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Task<T> {
        self.executor.spawn(task)
    }

    fn join<T: Send + 'static>(handle: Task<T>) -> impl Future<Output = T> + Send {
        handle
    }

    fn cancel(handle: Task<()>) {
        drop(handle);
    }

    async fn sleep(time: Duration) {
        async_io::Timer::after(time).await;
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        futures_lite::future::yield_now()
    }
}

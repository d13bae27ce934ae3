//! Runtimes with one thread per core, whose tasks stay on their thread: each thread submits and runs its share.

use std::sync::Arc;
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bounded::{Load, NAP};
use crate::count::Count;
use crate::peer::THREADS;

/// Calls `run` on each thread, with its share of the load. The threads do not end, so that their switches are counted.
fn on_each_thread(load: Load, run: fn(Load)) {
    let count: &'static Count = Box::leak(Box::new(Count::new(2)));
    for _ in 0..THREADS {
        thread::spawn(move || {
            run(Load {
                tasks: load.tasks / 2,
                capacity: load.capacity / THREADS,
            });
            count.down();
            loop {
                thread::park();
            }
        });
    }
    count.wait();
}

/// Spawns the tasks, each with a permit, and waits for all permits.
async fn feed<S: Future>(
    load: Load,
    sleep: impl Fn() -> S + Copy + 'static,
    spawn: impl Fn(OwnedSemaphorePermit, S),
) {
    let room = Arc::new(Semaphore::new(load.capacity));
    for _ in 0..load.tasks {
        let permit = Arc::clone(&room).acquire_owned().await;
        spawn(permit.expect("the semaphore is not closed"), sleep());
    }
    let all = u32::try_from(load.capacity).expect("bounds are below 2^32");
    drop(room.acquire_many(all).await);
}

pub fn monoio(load: Load) {
    on_each_thread(load, |load| {
        let runtime = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new()
            .enable_timer()
            .build();
        let mut runtime = runtime.expect("the kernel has io_uring");
        runtime.block_on(feed(
            load,
            || monoio::time::sleep(NAP),
            |permit, sleep| {
                monoio::spawn(async move {
                    sleep.await;
                    drop(permit);
                });
            },
        ));
    });
}

pub fn compio(load: Load) {
    on_each_thread(load, |load| {
        let runtime = compio::runtime::Runtime::new().expect("the kernel has io_uring");
        runtime.block_on(feed(
            load,
            || compio::time::sleep(NAP),
            |permit, sleep| {
                let task = async move {
                    sleep.await;
                    drop(permit);
                };
                compio::runtime::spawn(task).detach();
            },
        ));
    });
}

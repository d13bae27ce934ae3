//! Executors that run only some cases.

use futures_buffered::FuturesUnorderedBounded;
use futures_lite::StreamExt as _;
use tokio::task::JoinSet;

use crate::bounded::{Load, NAP};
use crate::peer::THREADS;
use crate::peers::runtime;

/// A `JoinSet` of tokio whose length is the bound.
pub fn join_set(load: Load) {
    let runtime = runtime();
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for _ in 0..load.tasks {
            if set.len() == load.capacity {
                set.join_next().await;
            }
            set.spawn(tokio::time::sleep(NAP));
        }
        while set.join_next().await.is_some() {}
    });
    std::mem::forget(runtime); // Its threads are looked at.
}

/// Coroutines with stacks of their own.
pub fn may(load: Load) {
    use may::sync::Semphore;

    may::config().set_workers(THREADS).set_stack_size(0x1000);
    let room: &'static Semphore = Box::leak(Box::new(Semphore::new(load.capacity)));
    for _ in 0..load.tasks {
        room.wait();
        may::go!(|| {
            may::coroutine::sleep(NAP);
            room.post();
        });
    }
    (0..load.capacity).for_each(|_| room.wait());
}

/// All sleeps in one task on one thread, which uses the timers of `async-pool`: no handles, and no sleep is polled while
/// the task does something else.
pub fn futures_buffered(load: Load) {
    let pool = async_pool::AsyncPool::builder().workers(1).build();
    let pool = pool.expect("threads can be started");
    let task = async move {
        let mut live = FuturesUnorderedBounded::new(load.capacity);
        for _ in 0..load.tasks {
            if live.len() == load.capacity {
                live.next().await;
            }
            live.push(async_pool::sleep(NAP));
        }
        while live.next().await.is_some() {}
    };
    let handle = pool.spawn(task).expect("the pool is not released");
    handle.join().expect("the task does not panic");
    std::mem::forget(pool); // Its threads are looked at.
}

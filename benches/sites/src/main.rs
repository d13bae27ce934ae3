//! One call site, or 201 with the feature `many`, each in its own function with its own closure.
//! Prints how many of them have run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(any(feature = "submit", feature = "spawn"))]
mod kind {
    pub type Pool = pool_core::Pool;
    pub fn pool() -> Pool {
        pool_core::Pool::builder()
            .capacity(2)
            .build()
            .expect("a pool")
    }
    #[cfg(feature = "submit")]
    macro_rules! call {
        ($pool:ident, $task:expr) => {
            $pool.submit($task).expect("room")
        };
    }
    #[cfg(not(feature = "submit"))]
    macro_rules! call {
        ($pool:ident, $task:expr) => {
            $pool.spawn($task).expect("room").join().expect("a value")
        };
    }
    pub(crate) use call;
}

#[cfg(feature = "threadpool")]
mod kind {
    pub type Pool = threadpool::ThreadPool;
    pub fn pool() -> Pool {
        threadpool::ThreadPool::new(2)
    }
    macro_rules! call {
        ($pool:ident, $task:expr) => {
            $pool.execute($task)
        };
    }
    pub(crate) use call;
}

#[cfg(any(feature = "tokio-detached", feature = "tokio-joined"))]
mod kind {
    pub type Pool = tokio::runtime::Runtime;
    pub fn pool() -> Pool {
        tokio::runtime::Runtime::new().expect("a runtime")
    }
    #[cfg(feature = "tokio-detached")]
    macro_rules! call {
        ($pool:ident, $task:expr) => {
            drop($pool.spawn_blocking($task))
        };
    }
    #[cfg(not(feature = "tokio-detached"))]
    macro_rules! call {
        ($pool:ident, $task:expr) => {
            $pool
                .block_on($pool.spawn_blocking($task))
                .expect("a value")
        };
    }
    pub(crate) use call;
}

#[cfg(not(any(
    feature = "spawn",
    feature = "submit",
    feature = "threadpool",
    feature = "tokio-detached",
    feature = "tokio-joined"
)))]
mod kind {
    pub struct Pool;
    pub fn pool() -> Pool {
        Pool
    }
    #[cfg(feature = "rayon")]
    macro_rules! call {
        ($pool:ident, $task:expr) => {{
            let Pool = $pool;
            rayon::spawn($task)
        }};
    }
    #[cfg(not(feature = "rayon"))]
    macro_rules! call {
        ($pool:ident, $task:expr) => {{
            let Pool = $pool;
            ($task)()
        }};
    }
    pub(crate) use call;
}

use kind::{Pool, call, pool};

/// The text differs, so that no two closures have the same code.
macro_rules! site {
    ($pool:ident, $ran:ident, $number:literal) => {{
        #[inline(never)]
        fn site(pool: &Pool, ran: &Arc<AtomicU64>) {
            let (ran, text) = (Arc::clone(ran), String::from(stringify!($number)));
            let task = move || {
                ran.fetch_add(u64::from(text == stringify!($number)), Ordering::Relaxed);
            };
            call!(pool, task);
        }
        site(&$pool, &$ran);
    }};
}

fn main() {
    let ran = Arc::new(AtomicU64::new(0));
    let pool = pool();
    site!(pool, ran, 0);
    #[cfg(feature = "many")]
    seq_macro::seq!(N in 1..=200 {
        site!(pool, ran, N);
    });
    while Arc::strong_count(&ran) > 1 {
        std::thread::yield_now(); // A task that has ended has dropped its reference.
    }
    fence(Ordering::Acquire);
    println!("{}", ran.load(Ordering::Relaxed));
}

//! Keeps a pool busy with small tasks and prints their number, so that an external tool can count
//! system calls and allocations per task.
//!
//! `cargo run --release -p pool-core --example busy_pool [TASKS [PRODUCERS [CAPACITY [DEPTH]]]]`
//! (a depth of `-` is unlimited). Prints the wall time per task to standard error.

use std::error::Error;
use std::time::Instant;

use pool_core::{Pool, QueueDepth};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().map_or(Ok(default), |text| text.parse());
    let (tasks, producers, capacity) = (number(1_000_000)?, number(1)?, number(2)?);
    let depth = match args.next().as_deref() {
        None | Some("-") => QueueDepth::Unlimited,
        Some(text) => QueueDepth::Limited(text.parse()?),
    };
    let pool = Pool::builder()
        .capacity(usize::try_from(capacity)?)
        .queue_depth(depth)
        .build()?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..producers {
            scope.spawn(|| {
                for _ in 0..tasks / producers {
                    pool.submit(|| {}).expect("the pool is open");
                }
            });
        }
    });
    pool.wait_idle()?;
    let tasks = pool.stats().completed;
    let nanoseconds = start.elapsed().as_nanos() / u128::from(tasks.max(1));
    eprintln!("{nanoseconds} ns per task");
    println!("tasks {tasks}");
    Ok(())
}

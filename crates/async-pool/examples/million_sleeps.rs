//! A million futures that each sleep 10 ms, 50,000 at a time.

use std::time::{Duration, Instant};

use async_pool::AsyncPool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<usize>());
    let tasks = arguments.next().transpose()?.unwrap_or(1_000_000);
    let capacity = arguments.next().transpose()?.unwrap_or(50_000);
    let pool = AsyncPool::builder().capacity(capacity).build()?;
    let begin = Instant::now();
    for _ in 0..tasks {
        pool.submit(async_pool::sleep(Duration::from_millis(10)))?;
    }
    pool.wait_idle()?;
    println!(
        "{tasks} sleeps, {capacity} at a time: {:?}",
        begin.elapsed()
    );
    Ok(())
}

//! A bounded pool of futures, with workers and timers of its own.
//!
//! An async runtime's `spawn` has no bound. [`AsyncPool`] has one: at most `capacity` futures are live at a time, and
//! further submits wait in one fair queue, are refused, or time out, as the call says. Room is free again when the future
//! has been *dropped*, so a cancelled future does not run on outside of the bound.
//!
//! ```
//! use std::time::Duration;
//! use async_pool::AsyncPool;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let pool = AsyncPool::builder().capacity(1_000).build()?;
//!     for _ in 0..10_000 {
//!         pool.submit(async_pool::sleep(Duration::from_millis(1)))?; // Waits for room: 1,000 sleep at a time.
//!     }
//!     let handle = pool.spawn(async { 6 * 7 })?;
//!     assert_eq!(handle.join()?, 42); // Or `.await`, on any runtime.
//!     pool.wait_idle()?;
//!     Ok(())
//! }
//! ```

mod adapters;
mod admission;
mod group;
mod map;
mod pool;
mod task;
mod timers;
mod worker;

#[cfg(feature = "tower")]
pub use adapters::{PoolLayer, PoolService, ResponseFuture, ServiceError};
pub use group::TaskGroup;
pub use map::Map;
pub use pool::{
    AsyncFuncPool, AsyncPool, AsyncWorkerPool, Builder, DEFAULT_NAME, JoinHandle, Permit, Stats,
};
pub use pool_core::{
    BuildError, Capacity, Clock, DropPolicy, JoinError, ManualClock, MonotonicClock, QueueDepth,
    SubmitError, TaskPanic, Timeout, TuneError, WaitError,
};
pub use task::{Func, Futures, Starts};
pub use timers::{Elapsed, Interval, Sleep, interval, sleep, sleep_until, timeout, yield_now};

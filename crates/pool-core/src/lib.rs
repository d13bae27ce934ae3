//! A bounded, elastic pool of worker threads.

mod after;
mod builder;
mod capacity;
mod cell;
mod closures;
mod config;
mod core;
mod decide;
mod enter;
mod error;
mod foreign;
mod func;
mod handle;
mod idle;
mod life;
mod line;
mod lock;
mod pool;
mod queue;
mod run;
mod state;
mod stats;
mod task;
mod wait;
mod worker;

pub use builder::{Builder, DEFAULT_KEEP_ALIVE, DEFAULT_NAME, DEFAULT_NESTING_LIMIT};
pub use capacity::{Capacity, QueueDepth};
pub use closures::{Closures, Pool, WeakPool};
pub use config::{DropPolicy, WithinWorker};
pub use core::Runner;
pub use error::{BuildError, JoinError, Panicked, SubmitError, TuneError, WaitError};
pub use func::{Func, FuncJob, FuncPool, WeakFuncPool};
pub use handle::JoinHandle;
pub use pool::{WeakWorkerPool, WorkerPool};
pub use run::TaskPanic;
pub use stats::Stats;
#[cfg(not(anthill_loom))]
pub use sync_shim::MonotonicClock;
pub use sync_shim::{Clock, ManualClock};
pub use task::Task;

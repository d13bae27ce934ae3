//! A work queue of keys: each is delivered once however often it was added, and is never with two
//! workers at a time.
#![forbid(unsafe_code)]

mod builder;
mod core;
mod drain;
mod error;
mod get;
mod held;
mod keys;
mod layer;
mod limiter;
mod lock;
mod metrics;
#[cfg(not(anthill_loom))]
mod parallel;
mod policy;
mod queue;
mod recording;
mod records;
mod state;

pub use builder::{Builder, DEFAULT_FAILURE_EXPIRY, controller_limiter};
pub use core::{Hasher, Key};
pub use drain::{Delayed, DrainFuture, Drained, Leftovers, Outcome, StillHeld};
pub use error::{GetError, ShutDown};
pub use get::GetFuture;
pub use held::Held;
pub use layer::{Delaying, Delays, Layer, Plain, Retries, Retrying};
pub use limiter::{
    Exponential, FastSlow, Jitter, Jittered, MaxOf, RateLimiter, TokenBucket, WithMaxWait,
};
pub use metrics::Metrics;
#[cfg(not(anthill_loom))]
pub use parallel::{Panicked, Report, parallelize_chunks, parallelize_until};
pub use policy::{Added, Pending, Policy, Retried};
pub use queue::{DedupDelayQueue, DedupQueue, DedupRetryQueue, Stats};
pub use recording::{BUCKETS, Figures, Histogram, RecordingMetrics};
#[cfg(not(anthill_loom))]
pub use sync_shim::MonotonicClock;
pub use sync_shim::{Clock, ManualClock};

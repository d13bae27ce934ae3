//! The umbrella's behaviour: the pool of the process, and what is re-exported.
#![cfg(not(anthill_loom))]

mod aliases;
mod default_pool;
#[cfg(unix)]
mod forks;
mod reexports;
#[cfg(feature = "dedup-queue")]
mod waiting_metrics;

//! Tests of the umbrella crate: the default pool and the re-exports.
#![cfg(not(anthill_loom))]

mod aliases;
mod default_pool;
#[cfg(unix)]
mod forks;
mod reexports;
#[cfg(feature = "dedup-queue")]
mod waiting_metrics;

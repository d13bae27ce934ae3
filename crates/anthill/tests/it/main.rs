//! Tests of the umbrella crate: the default pool and the re-exports.
#![cfg(not(anthill_loom))]

mod aliases;
mod default_pool;
#[cfg(unix)]
mod forks;
mod reexports;
#[cfg(all(
    feature = "dedup-queue",
    feature = "delay-queue",
    feature = "multi-pool",
    feature = "scheduled-pool"
))]
mod unwind_safety;
#[cfg(feature = "dedup-queue")]
mod waiting_metrics;

//! Tests of multi-pools on real threads, with a manual clock.
#![cfg(not(anthill_loom))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod balance;
mod batch;
mod building;
mod cancel;
mod figures;
#[cfg(unix)]
mod forks;
mod group;
mod keyed;
mod last_handle;
mod life;
mod map;
mod on_full;
mod own_worker;
mod permits;
mod support;
mod task_options;
mod threads;
mod traits;
mod wait_async;
mod waiting;

//! Tests of the queue on real threads, with a manual clock.
#![cfg(not(anthill_loom))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod adding;
mod back_off;
mod delaying;
mod draining;
mod errors;
mod expiring;
mod foreign;
#[cfg(unix)]
mod forks;
mod futures;
mod guards;
mod idle;
mod lanes;
mod limiters;
mod listing;
mod memory;
mod metrics;
mod policies;
mod removing;
mod retrying;
mod shutting_down;
#[cfg(feature = "stream")]
mod stream;
mod support;
mod threads;
mod user_code;
mod waiting;
mod yielding;

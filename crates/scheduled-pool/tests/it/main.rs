//! Tests of the scheduled pool with threads and a manual clock.
#![cfg(not(anthill_loom))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod cancel;
mod elsewhere;
mod extremes;
mod foreign;
#[cfg(unix)]
mod forks;
mod handles;
mod large;
mod life;
mod line;
mod missed;
mod once;
mod pacing;
mod process;
mod random;
mod release;
mod reset;
mod rest;
mod retrying;
mod series;
mod several;
mod support;
mod task_options;
mod threads;
mod unstarted;
mod wait_async;

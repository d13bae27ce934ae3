//! Tests of the pool on real threads, with a manual clock.
#![cfg(not(anthill_loom))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod admission;
mod batch;
mod blocking;
mod building;
mod burst;
mod calls;
mod cancel_token;
mod deadlines;
mod ended;
mod errand;
mod errors;
mod expiry;
#[cfg(unix)]
mod forks;
mod func;
mod futures;
mod hooks;
mod in_place;
mod last_handle;
mod line;
mod on_full;
mod own_waits;
mod panics;
mod pause;
mod permits;
mod permits_end;
mod priorities;
mod process;
mod reboot;
mod release;
mod release_now;
mod smoke;
mod spawn;
mod stats;
mod stress;
mod support;
mod task_hook;
mod task_options;
mod thread_options;
mod threads;
mod tune;
mod unsafe_windows;
mod user_code;
mod wait_async;
mod worker_slots;
mod worker_state;

//! Helpers for the tests of this workspace: values with counted or panicking drops, seeded random
//! numbers, a gate, a watchdog, wakers, child processes, names and limits of threads.
//!
//! Not for product code, and not for models: the helpers use std's primitives, which loom does not
//! see.
//!
//! # Invariants
//! 1. No helper makes a test pass by waiting for a duration. A gate waits for events, and the
//!    watchdog only turns a hang into a failure.
//! 2. No helper depends on the crates under test, so each crate can use them as a dev-dependency.

mod allocator;
mod child;
mod drops;
mod example;
#[cfg(unix)]
mod fork;
mod gate;
mod left_out;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(feature = "programs")]
mod programs;
mod rng;
#[cfg(target_os = "linux")]
mod threads;
mod wakers;
mod watchdog;

pub use allocator::{BYTES, CountingAllocator, PEAK};
pub use child::in_child;
pub use drops::{Counted, DropCounter, PanicOnDrop};
pub use example::{Running, example, scratch};
#[cfg(unix)]
pub use fork::{ForkCase, check_in_forks, in_fork, ready};
pub use gate::Gate;
pub use left_out::left_out;
#[cfg(target_os = "linux")]
pub use limits::{on_special_thread, wait_for_service_threads, without_threads};
#[cfg(feature = "programs")]
pub use programs::walk_programs;
pub use rng::Rng;
pub use testkit_macros::{model, scenario, test};
#[cfg(target_os = "linux")]
pub use threads::thread_names;
pub use wakers::{
    CountingWaker, block_on, block_on_counted, waker_cloned_by, waker_fn, waker_whose_clone_panics,
};
pub use watchdog::{LIMIT, Watchdog, watchdog};

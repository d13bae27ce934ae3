//! Helpers for the tests of this workspace: values that count or refuse their drops, seeded
//! random numbers, a gate, a watchdog, wakers, child processes.
//!
//! Not for: product code, and not for models (everything here is std's, loom sees none of it).
//!
//! # What always holds
//! 1. Nothing here makes a test pass by waiting: a gate waits for events, and the watchdog only
//!    turns a hang into a failure.
//! 2. Nothing here depends on the crates under test, so it can be a dev-dependency of each.

mod allocator;
mod child;
mod drops;
mod example;
#[cfg(unix)]
mod fork;
mod gate;
mod left_out;
#[cfg(feature = "programs")]
mod programs;
mod rng;
mod wakers;
mod watchdog;

pub use allocator::{BYTES, CountingAllocator, PEAK};
pub use child::in_child;
pub use drops::{Counted, DropCounter, PanicOnDrop};
pub use example::{Running, example};
#[cfg(unix)]
pub use fork::{ForkCase, check_in_forks, in_fork, ready};
pub use gate::Gate;
pub use left_out::left_out;
#[cfg(feature = "programs")]
pub use programs::walk_programs;
pub use rng::Rng;
pub use testkit_macros::{model, scenario, test};
pub use wakers::{CountingWaker, block_on, waker_cloned_by, waker_fn, waker_whose_clone_panics};
pub use watchdog::{LIMIT, Watchdog, watchdog};

//! The one source of atomics, cells, locks, parking, threads and clocks.
//!
//! All crates above access shared memory and time only through this one. With `--cfg anthill_loom`
//! the same protocols run on [loom](https://docs.rs/loom)'s versions, which explore their
//! interleavings, without any changes above. With `--cfg anthill_shuttle` in addition,
//! [shuttle](https://docs.rs/shuttle) replaces loom: random schedules of more threads than loom can
//! handle.
//!
//! Not for: general use. The list of items is closed and small on purpose, and no item is more
//! portable or more convenient than the one it replaces.
//!
//! # Guarantees
//! 1. The interface is the same with and without the cfg: like `parking_lot`'s (no poisoning, guards,
//!    `wait(&mut guard)`).
//! 2. No item reads a clock by itself, except to measure the machine; timed waits take a point in time and go
//!    through a [`Clock`].
//! 3. A [`Parker`] has a word of its own. `std::thread::park` is not used, so a task that parks its
//!    thread for its own purposes cannot consume a wake-up of the pool.
//!
//! # With the cfg
//! loom's atomics have no `const` constructor, and loom does not support statics. So all statics
//! (identifiers, the thread tag, the fork count) are in `statics.rs` and are not modelled; none of
//! them orders anything. Timed waits are modelled by [`ManualClock`]: a model's clock thread calls
//! `advance`, which may fire any deadline at any point.

#[cfg(all(anthill_shuttle, not(anthill_loom)))]
compile_error!("`anthill_shuttle` says which runtime the models have: it goes with `anthill_loom`");

#[cfg(all(anthill_loom, not(anthill_shuttle), not(feature = "loom")))]
compile_error!("under `--cfg anthill_loom` build with `--features sync-shim/loom`");

#[cfg(all(anthill_shuttle, not(feature = "shuttle")))]
compile_error!("under `--cfg anthill_shuttle` build with `--features sync-shim/shuttle`");

/// The runtime that schedules the threads of a model.
#[cfg(all(anthill_loom, not(anthill_shuttle)))]
use loom as runtime;
#[cfg(anthill_shuttle)]
use shuttle as runtime;

pub mod atomic;
pub mod cell;
mod clock;
pub mod foreign;
mod futex;
mod lock;
#[cfg(anthill_loom)]
pub mod model;
mod parker;
mod per_process;
#[cfg(all(target_os = "linux", not(anthill_loom)))]
mod procfs;
#[cfg(not(anthill_loom))]
mod service;
mod statics;
pub mod thread;
mod timeout;
pub mod waiter;
#[cfg(not(anthill_loom))]
mod yielding;

#[cfg(anthill_loom)]
pub use clock::alarms;
pub use clock::{
    Alarm, Clock, Deadline, LONGEST_PACE, ManualClock, Time, is_refused, pace, wake_at,
};
#[cfg(not(anthill_loom))]
pub use clock::{MonotonicClock, PlainClock};
pub use futex::Futex;
pub use lock::{Condvar, Mutex, MutexGuard};
pub use parker::{Parker, ThreadParker};
pub use per_process::PerProcess;
#[cfg(anthill_loom)]
#[doc(hidden)]
pub use runtime::thread_local;
pub use statics::{Process, fork_count, unique_id};
pub use timeout::Timeout;

/// Declares thread-locals whose initial values are constants.
#[cfg(not(anthill_loom))]
#[macro_export]
macro_rules! thread_locals {
    ($(static $name:ident: $type:ty = $init:expr;)*) => {
        ::std::thread_local! { $(static $name: $type = const { $init };)* }
    };
}

/// Declares thread-locals of a model.
#[cfg(anthill_loom)]
#[macro_export]
macro_rules! thread_locals {
    ($(static $name:ident: $type:ty = $init:expr;)*) => {
        $crate::thread_local! { $(static $name: $type = $init;)* }
    };
}

// The README's examples are compiled and run.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}

//! Exponential back-off, and a lock that spins, then yields, then sleeps.
//!
//! # When not to use it
//! - The section may block, allocate much, do input or output, or run user code: use
//!   `std::sync::Mutex`. Waiters that sleep cannot hurry a holder that is slow.
//! - You need to know that a section panicked: here is no poison.
//! - You need strict first come, first served: running threads pass sleeping ones, though not for
//!   ever.
//! - There is no operating system: sleeping needs threads, so this crate needs `std`.
//!
//! # When to
//! For sections of a few dozen instructions that many threads enter often, more threads than
//! cores among them. Pure spinning collapses there, as a preempted holder makes every waiter burn
//! its time slice; yielding alone is quick, but a thread can be kept out for as long as the others
//! run. Here a waiter sleeps after a few yields, and the lock is handed to a sleeper from time to
//! time (eventual fairness).
//!
//! # What is here
//! - [`SpinLock<T>`]: a value under the lock; works in [loom](https://docs.rs/loom) models too.
//! - [`RawSpinLock`]: the lock as a `lock_api` raw mutex, and [`SpinMutex<T>`], that crate's
//!   mutex over it.
//! - [`Backoff`]: the brief wait by itself.

#[cfg(not(anthill_loom))]
mod api;
mod backoff;
mod lock;
mod raw;

#[cfg(not(anthill_loom))]
pub use api::SpinMutex;
pub use backoff::{Backoff, MAX_SPINS, MAX_YIELDS, SPIN_ROUNDS, YIELD_ROUNDS};
pub use lock::{SpinGuard, SpinLock};
pub use raw::RawSpinLock;

// What the README shows is compiled and run.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}

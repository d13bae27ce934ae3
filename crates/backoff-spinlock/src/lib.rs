//! A lock for very short sections that spins, then yields, then sleeps; and its exponential
//! back-off.
//!
//! # When not to use it
//! - If the section may block, allocate large amounts, do I/O, or run user code: use
//!   `std::sync::Mutex`.
//! - If you need poisoning: a panic in a section is not reported.
//! - If you need strict first come, first served: running threads overtake sleeping threads, though
//!   not for ever.
//! - Without an operating system: sleeping needs threads, so this crate needs `std`.
//!
//! # When to use it
//! For sections of a few dozen instructions that many threads enter often, with more threads than
//! cores. Pure spinning collapses there: a preempted holder makes every waiter burn its time slice.
//! Yielding alone is quick, but can keep a thread out for as long as the others run. Here a waiter
//! sleeps after a few yields, and the lock is handed to a sleeper from time to time (eventual
//! fairness).
//!
//! # Contents
//! - [`SpinLock<T>`]: a value under the lock; works in [loom](https://docs.rs/loom) models too.
//! - [`RawSpinLock`]: the lock as a `lock_api` raw mutex, and [`SpinMutex<T>`], `lock_api`'s mutex
//!   with it.
//! - [`Backoff`]: the spinning and yielding without a lock.

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

// The README's examples are compiled and run.
#[cfg(all(doctest, not(anthill_loom)))]
#[doc = include_str!("../README.md")]
mod readme {}

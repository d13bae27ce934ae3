//! The lock around the queue's state.
//!
//! The spin lock that yields, then sleeps: sections take some dozens of instructions, and keys are
//! hashed, cloned and dropped outside. No row of `benches/dedup_queue` distinguishes it from
//! `parking_lot`'s, so the reasons are those of the pool. Models use loom's lock instead: the spin
//! lock has models of its own, and its steps would multiply theirs.

#[cfg(not(anthill_loom))]
pub(crate) use backoff_spinlock::{SpinGuard as StateGuard, SpinLock as StateLock};
#[cfg(anthill_loom)]
pub(crate) use sync_shim::{Mutex as StateLock, MutexGuard as StateGuard};

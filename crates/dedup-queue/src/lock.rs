//! The lock around the queue's state.
//!
//! The spin lock that yields, then sleeps: its sections here are some dozens of instructions, and
//! keys are hashed, cloned and dropped outside. In `benches/dedup_queue` no row distinguishes it from
//! `parking_lot`'s, so what decides is what decided for the pool. The models put loom's lock in its place: the spin
//! lock has models of its own, and its steps would multiply theirs.

#[cfg(not(anthill_loom))]
pub(crate) use backoff_spinlock::{SpinGuard as StateGuard, SpinLock as StateLock};
#[cfg(anthill_loom)]
pub(crate) use sync_shim::{Mutex as StateLock, MutexGuard as StateGuard};

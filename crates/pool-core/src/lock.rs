//! The lock around the pool's state.
//!
//! The spin lock that yields, then sleeps: its sections here are some dozens of instructions, and
//! `docs/decisions/pool-lock.md` has the table against `parking_lot`. The models put loom's lock
//! in its place: the spin lock has models of its own, and its steps would multiply theirs.

#[cfg(not(anthill_loom))]
pub(crate) use backoff_spinlock::{SpinGuard as StateGuard, SpinLock as StateLock};
#[cfg(anthill_loom)]
pub(crate) use sync_shim::{Mutex as StateLock, MutexGuard as StateGuard};

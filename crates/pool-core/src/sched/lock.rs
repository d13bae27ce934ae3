//! Two locks, each around its half of the pool's state: one half alone, or the first and then the
//! second.
//!
//! They are the spin lock that yields, then sleeps: sections here are some dozens of instructions,
//! and `docs/decisions/pool-lock.md` has the table against `parking_lot`.
//!
//! No section gives a lock back and then takes another, so every run is one in which the sections
//! came one after the other (two-phase locking: Eswaran, Gray, Lorie and Traiger, 1976). So the
//! models put one lock in the place of both: it has just those runs, and far fewer steps. And
//! because that is an argument about `two.rs` and `shared.rs`, each of this crate's models runs on
//! the two locks as well, with fewer pre-emptions. There they are mutexes: the spin lock has models
//! of its own.

#[cfg(anthill_loom)]
mod model;
#[cfg(anthill_loom)]
mod one;
mod two;

#[cfg(anthill_loom)]
pub(crate) use model::{Both, First, Pair, Second};
#[cfg(not(anthill_loom))]
pub(crate) use two::{Both, First, Pair, Second};

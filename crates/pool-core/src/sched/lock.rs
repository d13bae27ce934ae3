//! A pair of locks, each around one half of the pool's state. A caller takes one half alone, or the first and then
//! the second.
//!
//! They are spin locks that yield and then sleep, because the sections are a few dozen instructions long.
//! `docs/decisions/pool-lock.md` compares them with `parking_lot`.
//!
//! No section releases a lock and then takes another one, so every execution is equivalent to one in which the
//! sections run one after the other (two-phase locking: Eswaran, Gray, Lorie and Traiger, 1976). Models therefore
//! use one lock for both halves: it has the same outcomes and far fewer steps. Because that argument depends on
//! `two.rs` and `shared.rs`, each model of this crate also runs on two locks, with fewer pre-emptions. These are
//! mutexes there; the spin lock has models of its own.

#[cfg(anthill_loom)]
mod model;
#[cfg(anthill_loom)]
mod one;
mod two;

#[cfg(anthill_loom)]
pub(crate) use model::{Both, First, Pair, Second};
#[cfg(not(anthill_loom))]
pub(crate) use two::{Both, First, Pair, Second};

//! Runs a model: every interleaving up to a bound, or many random ones.

#[cfg(not(anthill_shuttle))]
mod exhaustive;
#[cfg(anthill_shuttle)]
mod random;

#[cfg(not(anthill_shuttle))]
pub(crate) use exhaustive::fair_wakes;
#[cfg(not(anthill_shuttle))]
pub use exhaustive::{
    check, lanes, lingers, set_fair_wakes, set_lanes, set_lingers, set_two_locks, two_locks,
};
#[cfg(anthill_shuttle)]
pub(crate) use random::coin;
#[cfg(anthill_shuttle)]
pub use random::{explore, lanes, lingers, random_below, two_locks};

pub use crate::runtime::thread::{JoinHandle, spawn};

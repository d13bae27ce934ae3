//! The engine of a pool: admission, workers, their start and end. Each call runs a section of the scheduler, then
//! its deferred effects with no lock held.

pub(crate) mod admit;
pub(crate) mod blocking;
pub(crate) mod core;
pub(crate) mod discard;
pub(crate) mod life;
pub(crate) mod runner;
pub(crate) mod submit_future;
pub(crate) mod wait;
pub(crate) mod worker;
pub(crate) mod worker_state;

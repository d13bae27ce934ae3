//! Tests of the lock on the machine; the models are in `tests/loom.rs`.

#![cfg(not(anthill_loom))]

mod backoff;
mod exclusion;
mod face;
mod fairness;
mod timed;

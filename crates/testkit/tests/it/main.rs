//! Tests of the test helpers.

mod drops;
mod gate;
mod rng;
mod wakers;
mod watchdog;

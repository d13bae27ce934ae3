//! Tests of the test helpers.

mod drops;
mod gate;
mod left_out;
mod rng;
mod wakers;
mod watchdog;

//! Tests of the test helpers.

mod drops;
mod gate;
mod left_out;
mod models;
mod rng;
mod wakers;
mod watchdog;

use models::{check, explore};

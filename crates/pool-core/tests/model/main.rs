//! Random programs on a pool, compared with a single-threaded model after each step.
//!
//! `PROPTEST_CASES` sets the number of programs, `ANTHILL_SEED` the seed.
#![cfg(not(anthill_loom))]

mod regressions;
mod twin;

use testkit::walk_programs;

use twin::program::{HEAD, LONGEST, STEP, decode};

#[test]
fn a_pool_equals_its_model_after_each_step_of_a_random_program() {
    walk_programs::<HEAD, STEP, _, _>(0, LONGEST, decode, twin::walk);
}

//! Random programs on a pool, with a single-threaded model of it beside them.
//!
//! `PROPTEST_CASES` says how many programs, `ANTHILL_SEED` which.
#![cfg(not(anthill_loom))]

mod regressions;
mod twin;

use testkit::walk_programs;

use twin::program::{HEAD, LONGEST, STEP, decode};

#[test]
fn a_pool_is_where_its_model_is_after_each_step_of_any_program() {
    walk_programs::<HEAD, STEP, _, _>(0, LONGEST, decode, twin::walk);
}

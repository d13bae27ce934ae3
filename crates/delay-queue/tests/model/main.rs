//! Random programs on a queue and those who wait for it, with a plain model beside them.
//!
//! `PROPTEST_CASES` says how many programs, `ANTHILL_SEED` which.
#![cfg(all(feature = "std", not(anthill_loom)))]
#![expect(clippy::unchecked_time_subtraction, reason = "programs are short")]

mod twin;

use testkit::walk_programs;

use twin::program::{HEAD, STEP, decode};

/// Steps of a program.
const LONGEST: usize = 200;

#[test]
fn nothing_is_early_lost_or_left_lying_after_any_step_of_any_program() {
    walk_programs::<HEAD, STEP, _, _>(1024, LONGEST, decode, twin::walk);
}

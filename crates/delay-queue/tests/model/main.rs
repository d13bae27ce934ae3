//! Random programs on a queue and its waiters, compared with a model.
//!
//! `PROPTEST_CASES` is the number of programs, `ANTHILL_SEED` their seed.
#![cfg(all(feature = "std", not(anthill_loom)))]
#![expect(clippy::unchecked_time_subtraction, reason = "programs are short")]

mod twin;

use testkit::walk_programs;

use twin::program::{HEAD, STEP, decode};

/// The maximum number of steps of a program.
const LONGEST: usize = 200;

#[test]
fn random_programs_take_no_entry_early_lose_none_and_leave_none() {
    walk_programs::<HEAD, STEP, _, _>(1024, LONGEST, decode, twin::walk);
}

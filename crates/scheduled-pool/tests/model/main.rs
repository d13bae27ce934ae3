//! Random programs on the timer, over a pool that runs one task per call, compared with a model.
//!
//! `PROPTEST_CASES` sets the number of programs, `ANTHILL_SEED` the seed.
#![cfg(not(anthill_loom))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod twin;

use testkit::{LIMIT, walk_programs, watchdog};

use twin::program::{HEAD, LONGEST, STEP, decode};

#[test]
fn a_timer_equals_its_model_after_each_step_of_a_random_program() {
    walk_programs::<HEAD, STEP, _, _>(256, LONGEST, decode, |settings, ops| {
        watchdog(LIMIT, || twin::walk(settings, ops));
    });
}

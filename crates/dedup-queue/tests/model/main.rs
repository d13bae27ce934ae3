//! Random programs on a queue, with a plain model of it beside them, or of those who wait for it.
//!
//! `PROPTEST_CASES` says how many programs, `ANTHILL_SEED` which.
#![cfg(not(anthill_loom))]

mod takers;
mod twin;

use testkit::walk_programs;

use twin::program::{HEAD, STEP, decode};

/// Steps of a program.
const LONGEST: usize = 200;

#[test]
fn a_queue_is_where_its_model_is_after_each_step_of_any_program() {
    walk_programs::<HEAD, STEP, _, _>(1024, LONGEST, decode, twin::walk);
}

#[test]
fn nobody_waits_in_vain_and_no_key_is_lost_whatever_wakers_do() {
    walk_programs::<{ takers::program::HEAD }, { takers::program::STEP }, _, _>(
        2048,
        LONGEST,
        takers::program::decode,
        takers::walk,
    );
}

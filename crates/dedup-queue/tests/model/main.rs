//! Random programs on a queue, compared with a plain model of it or of its waiters.
//!
//! `PROPTEST_CASES` is the number of programs, `ANTHILL_SEED` their seed.
#![cfg(not(anthill_loom))]

mod takers;
mod twin;

use testkit::walk_programs;

use twin::program::{HEAD, STEP, decode};

/// The maximum number of steps of a program.
const LONGEST: usize = 200;

#[test]
fn a_queue_behaves_like_its_model_in_random_programs() {
    walk_programs::<HEAD, STEP, _, _>(1024, LONGEST, decode, twin::walk);
}

#[test]
fn random_wakers_lose_no_key_and_no_wake_up() {
    walk_programs::<{ takers::program::HEAD }, { takers::program::STEP }, _, _>(
        2048,
        LONGEST,
        takers::program::decode,
        takers::walk,
    );
}

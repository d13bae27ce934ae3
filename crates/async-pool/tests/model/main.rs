//! Random programs on a pool of futures, compared with a plain model.
//!
//! `PROPTEST_CASES` is the number of programs, `ANTHILL_SEED` their seed.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod twin;

use testkit::{LIMIT, walk_programs, watchdog};

use twin::program::{HEAD, LONGEST, STEP, decode};

#[test]
fn a_pool_of_futures_behaves_like_its_model_in_random_programs() {
    walk_programs::<HEAD, STEP, _, _>(512, LONGEST, decode, |settings, ops| {
        watchdog(LIMIT, || twin::walk(settings, ops));
    });
}

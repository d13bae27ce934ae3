//! Random programs of keyed tasks, with a single-threaded model of the keys beside them.
//!
//! `PROPTEST_CASES` says how many programs, `ANTHILL_SEED` which.
#![cfg(not(anthill_loom))]

mod keyed;
#[path = "../../../pool-core/tests/model/twin/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "shared with the tests of `pool-core`"
)]
mod twin;

use keyed::program::{HEAD, LONGEST, STEP, decode};
use testkit::walk_programs;

#[test]
fn tasks_with_keys_keep_order_room_and_workers_after_each_step_of_any_program() {
    walk_programs::<HEAD, STEP, _, _>(0, LONGEST, decode, keyed::walk);
}

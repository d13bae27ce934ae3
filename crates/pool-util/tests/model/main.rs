//! Random programs of keyed tasks, compared with a single-threaded model of the keys.
//!
//! `PROPTEST_CASES` sets the number of programs, `ANTHILL_SEED` the seed.
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
fn keyed_tasks_keep_order_room_and_workers_in_random_programs() {
    walk_programs::<HEAD, STEP, _, _>(0, LONGEST, decode, keyed::walk);
}

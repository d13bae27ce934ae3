//! Random programs on a queue, with a plain model of it beside them.
//!
//! `PROPTEST_CASES` says how many programs, `ANTHILL_SEED` which.
#![cfg(not(anthill_loom))]

mod twin;

use std::fmt::Write;

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use testkit::Rng;

use twin::program::{HEAD, STEP, decode};

/// Steps of a program.
const LONGEST: usize = 200;

#[test]
fn a_queue_is_where_its_model_is_after_each_step_of_any_program() {
    let seed = Rng::from_env().next_u64();
    let mut runner = TestRunner::new_with_rng(
        Config {
            failure_persistence: None, // The seed is printed, the shortest program too.
            max_shrink_time: 120_000,
            cases: Config::default().cases.max(1024),
            ..Config::default()
        },
        TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes(seed)),
    );
    let programs = (any::<[u8; HEAD]>(), vec(any::<[u8; STEP]>(), 0..LONGEST));
    let walked = runner.run(&programs, |(head, steps)| {
        let (settings, ops) = decode(&[&head, steps.as_flattened()].concat());
        let walked = std::panic::catch_unwind(|| twin::walk(settings, &ops));
        walked.map_err(|payload| {
            let why = payload
                .downcast_ref::<String>()
                .map_or("see above", |text| text);
            let mut program = format!("{settings:?}");
            for op in &ops {
                _ = write!(program, "\n    {op:?}"); // A string takes everything.
            }
            TestCaseError::fail(format!("{why}\nprogram: {program}"))
        })
    });
    if let Err(failed) = walked {
        panic!("{failed}");
    }
}

fn seed_bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

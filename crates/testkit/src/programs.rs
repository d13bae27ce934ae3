//! Random programs, each run on a subject and a model, and shrunk to the shortest that fails.

use std::fmt::{Debug, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::Rng;

/// Runs random programs of up to `longest` steps: at least `cases`, or as many as `PROPTEST_CASES`
/// says. `ANTHILL_SEED` sets the seed. A program is `HEAD` bytes of settings and `STEP` bytes per
/// step, so that a fuzzer can generate it too.
///
/// # Panics
/// If `walk` panics for a program. The message contains the panic message and the shortest such
/// program that was found.
pub fn walk_programs<const HEAD: usize, const STEP: usize, S: Copy + Debug, O: Debug>(
    cases: u32,
    longest: usize,
    decode: impl Fn(&[u8]) -> (S, Vec<O>),
    walk: impl Fn(S, &[O]),
) {
    let seed = Rng::from_env().next_u64();
    let mut runner = TestRunner::new_with_rng(
        Config {
            failure_persistence: None, // The seed and the shortest program are printed.
            max_shrink_time: 120_000,
            cases: Config::default().cases.max(cases),
            ..Config::default()
        },
        TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes(seed)),
    );
    let programs = (any::<[u8; HEAD]>(), vec(any::<[u8; STEP]>(), 0..longest));
    let walked = runner.run(&programs, |(head, steps)| {
        let (settings, ops) = decode(&[&head, steps.as_flattened()].concat());
        let walked = catch_unwind(AssertUnwindSafe(|| walk(settings, &ops)));
        walked.map_err(|payload| {
            let why = payload
                .downcast_ref::<String>()
                .map_or("see above", |text| text);
            let mut program = format!("{settings:?}");
            for op in &ops {
                _ = write!(program, "\n    {op:?}"); // Writing to a string cannot fail.
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

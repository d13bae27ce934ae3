//! Compares a de-duplicating queue with its model: in every program, the results are equal, and no
//! key is lost, delivered twice, or held by two workers.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Shared with the property test, which generates random programs. The fuzzer is guided by coverage.
#[path = "../../crates/dedup-queue/tests/model/twin/mod.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = twin::program::decode(bytes);
    twin::walk(settings, &ops);
});

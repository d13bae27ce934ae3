//! A pool of futures compared with its model: each task is where the model says after each step, and no future is lost,
//! dropped twice or kept.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The walk of the property test. That test generates random programs; the fuzzer is guided by coverage.
#[path = "../../crates/async-pool/tests/model/twin/mod.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = twin::program::decode(bytes);
    twin::walk(settings, &ops);
});

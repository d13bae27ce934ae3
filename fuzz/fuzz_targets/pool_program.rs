//! Compares a pool with its model: in every program, the pool reaches the model's state at rest,
//! and no task is lost, run twice or ended in two ways.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Shared with the property test, which generates random programs. The fuzzer is guided by coverage.
#[path = "../../crates/pool-core/tests/model/twin/mod.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = twin::program::decode(bytes);
    twin::walk(settings, &ops);
});

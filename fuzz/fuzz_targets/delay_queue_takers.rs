//! Compares a delay queue and its waiters with a model: in every program, no entry is early or
//! lost, and none is ready while a waiter waits, whatever wakers do in place.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Shared with the property test, which generates random programs. The fuzzer is guided by coverage.
#[path = "../../crates/delay-queue/tests/model/twin/mod.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = twin::program::decode(bytes);
    twin::walk(settings, &ops);
});

//! Waiters of a de-duplicating queue, whose wakers call the queue, panic, or drop other waiters: no
//! wake-up and no key is lost, and no key is delivered twice.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Shared with the property test, which generates random programs. The fuzzer is guided by coverage.
#[path = "../../crates/dedup-queue/tests/model/takers/mod.rs"]
mod takers;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = takers::program::decode(bytes);
    takers::walk(settings, &ops);
});

//! A queue of keys beside its model: whatever is done to it, it says what the model says, and no
//! key is lost, delivered twice, or with two workers.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property test's own walk: it makes programs up at random, the fuzzer as coverage leads it.
#[path = "../../crates/dedup-queue/tests/model/twin/mod.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = twin::program::decode(bytes);
    twin::walk(settings, &ops);
});

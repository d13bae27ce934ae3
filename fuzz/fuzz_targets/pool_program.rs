//! A pool beside its model: whatever is done to it, it comes to rest where the model says, and no
//! task is lost, run twice or ended in two ways.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property test's own walk: it makes programs up at random, the fuzzer as coverage leads it.
#[path = "../../crates/pool-core/tests/model/twin/mod.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = twin::program::decode(bytes);
    twin::walk(settings, &ops);
});

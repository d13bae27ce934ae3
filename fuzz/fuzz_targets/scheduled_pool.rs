//! The timer of a scheduled pool beside its model: whatever is done to it, and whatever its tasks do,
//! each schedule is where the model says, and none is lost, run twice or ended in two ways.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property test's own walk: it makes programs up at random, the fuzzer as coverage leads it.
#[path = "../../crates/scheduled-pool/tests/model/twin/mod.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = twin::program::decode(bytes);
    twin::walk(settings, &ops);
});

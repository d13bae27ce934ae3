//! A delay queue, its waiters, and a plain model: whatever is done, and whatever wakers do
//! in place, nothing is early, lost, or left lying while a waiter waits for it.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property test's own walk: it makes programs up at random, the fuzzer as coverage leads it.
#[path = "../../crates/delay-queue/tests/model/twin/mod.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = twin::program::decode(bytes);
    twin::walk(settings, &ops);
});

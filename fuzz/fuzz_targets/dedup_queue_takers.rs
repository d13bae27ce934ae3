//! Waiters on a queue of keys, with wakers that come back into it, panic, or drop others:
//! no waiter waits in vain, and no key is lost or delivered twice.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property test's own walk: it makes programs up at random, the fuzzer as coverage leads it.
#[path = "../../crates/dedup-queue/tests/model/takers/mod.rs"]
mod takers;

fuzz_target!(|bytes: &[u8]| {
    let (settings, ops) = takers::program::decode(bytes);
    takers::walk(settings, &ops);
});

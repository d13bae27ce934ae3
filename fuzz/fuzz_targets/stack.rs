//! `Stack` beside a `Vec`: every operation, in any order, gives the same answers.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property tests' own twin: they make programs up at random, the fuzzer as coverage leads it.
#[path = "../../crates/worker-queue/tests/it/twin.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (ops, _) = bytes.as_chunks();
    let program = ops.iter().copied().map(twin::Op::from_bytes);
    twin::walk(twin::Queue::stack(), program);
});

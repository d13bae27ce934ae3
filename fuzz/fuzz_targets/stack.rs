//! Compares `Stack` with a `Vec`: in every program, the results are equal.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Shared with the property tests, which generate random programs. The fuzzer is guided by coverage.
#[path = "../../crates/worker-queue/tests/it/twin.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let (ops, _) = bytes.as_chunks();
    let program = ops.iter().copied().map(twin::Op::from_bytes);
    twin::walk(twin::Queue::stack(), program);
});

//! Compares `LoopQueue` with a `Vec`: in every program, the results are equal.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Shared with the property tests, which generate random programs. The fuzzer is guided by coverage.
#[path = "../../crates/worker-queue/tests/it/twin.rs"]
mod twin;

fuzz_target!(|bytes: &[u8]| {
    let Some((slots, bytes)) = bytes.split_first() else {
        return;
    };
    let (ops, _) = bytes.as_chunks();
    let program = ops.iter().copied().map(twin::Op::from_bytes);
    let ring = twin::Queue::ring(usize::from(slots % 16));
    twin::walk(ring.expect("so few slots fit into memory"), program);
});

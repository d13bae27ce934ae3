//! Compares `DelayHeap` with a `BTreeMap`: in every program, the results are equal.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Shared with the property tests, which generate random programs. The fuzzer is guided by coverage.
#[path = "../../crates/delay-queue/tests/heap/oracle.rs"]
mod oracle;

fuzz_target!(|bytes: &[u8]| {
    let (first, ops) = bytes.split_at(bytes.len().min(2));
    let has_short_lists = first.first().is_some_and(|first| first & 2 != 0);
    // Order numbers and generations may run out early, or never.
    let (order, generation) = match *first {
        [orders, generations] if orders % 2 == 1 => (
            u32::MAX - u32::from(orders),
            u32::MAX - u32::from(generations % 4),
        ),
        _ => (0, 0),
    };
    let (ops, _) = ops.as_chunks();
    let program = ops.iter().copied().map(oracle::Op::from_bytes);
    oracle::walk(order, generation, program, has_short_lists);
});

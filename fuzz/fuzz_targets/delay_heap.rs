//! `DelayHeap` beside a `BTreeMap`: every operation, in any order, gives the same answers.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property tests' own oracle: they make programs up at random, the fuzzer as coverage leads
// it.
#[path = "../../crates/delay-queue/tests/heap/oracle.rs"]
mod oracle;

fuzz_target!(|bytes: &[u8]| {
    let (first, ops) = bytes.split_at(bytes.len().min(2));
    // Generations may run out soon, or never; lists may be cut when they are short.
    let (longest, generation) = match *first {
        [longest, generations] if longest % 2 == 1 => (
            16 + usize::from(longest / 2),
            u32::MAX - u32::from(generations % 4),
        ),
        [longest, _] => (16 + usize::from(longest / 2), 0),
        _ => (1 << 11, 0),
    };
    let (ops, _) = ops.as_chunks();
    let program = ops.iter().copied().map(oracle::Op::from_bytes);
    oracle::walk(generation, longest, program);
});

//! Random programs of every operation, beside the oracle.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, proptest};

use crate::oracle::{Op, walk};

fn program(length: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; 4]>().prop_map(Op::from_bytes), 0..length)
}

proptest! {
    #[test]
    fn a_heap_answers_as_its_oracle_does(ops in program(120)) {
        walk(0, 1 << 11, ops);
    }

    #[test]
    fn so_it_does_when_it_moves_few_entries_at_a_time(longest in 16..80_usize, ops in program(200)) {
        walk(0, longest, ops);
    }

    #[test]
    fn so_it_does_when_generations_run_out(
        longest in 16..80_usize,
        generations in 0..3_u32,
        ops in program(60),
    ) {
        walk(u32::MAX - generations, longest, ops);
    }
}

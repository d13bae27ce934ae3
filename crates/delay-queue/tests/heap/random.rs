//! Random programs of all operations, compared with the oracle.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, proptest};

use crate::oracle::{Op, walk};

fn program(length: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; 4]>().prop_map(Op::from_bytes), 0..length)
}

proptest! {
    #[test]
    fn a_heap_behaves_like_its_oracle(ops in program(120)) {
        walk(0, 0, ops.clone(), false);
        walk(0, 0, ops, true);
    }

    #[test]
    fn a_heap_behaves_like_its_oracle_when_order_numbers_and_generations_run_out(
        orders in 0..300_u32,
        generations in 0..3_u32,
        ops in program(60),
    ) {
        walk(u32::MAX - orders, u32::MAX - generations, ops, orders % 2 == 0);
    }
}

//! Random programs of every operation, beside the twin.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, proptest};

use crate::twin::{Op, Queue, walk};

fn program() -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; 3]>().prop_map(Op::from_bytes), 0..200)
}

proptest! {
    #[test]
    fn a_stack_answers_as_its_twin_does(ops in program()) {
        walk(Queue::stack(), ops);
    }

    #[test]
    fn a_loop_queue_answers_as_its_twin_does(slots in 0..12_usize, ops in program()) {
        walk(Queue::ring(slots).unwrap(), ops);
    }
}

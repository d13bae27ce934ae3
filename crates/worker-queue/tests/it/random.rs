//! Random programs of all operations, compared with the twin.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, proptest};

use crate::twin::{Op, Queue, walk};

fn program() -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; 3]>().prop_map(Op::from_bytes), 0..200)
}

proptest! {
    #[test]
    fn a_stack_behaves_like_its_twin(ops in program()) {
        walk(Queue::stack(), ops);
    }

    #[test]
    fn a_loop_queue_behaves_like_its_twin(slots in 0..12_usize, ops in program()) {
        walk(Queue::ring(slots).unwrap(), ops);
    }
}

//! Cost of `DelayHeap` compared with other containers, without a lock or a clock.
//!
//! Run and printed as the benchmark `delay_queue`, which documents the options.

mod cases;
#[path = "../delay_queue/order.rs"]
mod order;
mod peers;
#[path = "../delay_queue/rounds.rs"]
mod rounds;
#[path = "../delay_queue/stopwatch.rs"]
mod stopwatch;
#[path = "../delay_queue/tails.rs"]
mod tails;

use rounds::Rounds;

fn main() {
    let rounds = Rounds::from_args();
    cases::all(&rounds);
    tails::run(
        &rounds,
        &[
            ("ours", tails::cancelling::<peers::Timed<peers::Ours>>),
            ("BinaryHeap", tails::ordered::<peers::Timed<peers::Heap>>),
            ("BTreeMap", tails::cancelling::<peers::Timed<peers::Tree>>),
            (
                "priority-queue",
                tails::cancelling::<peers::Timed<peers::Priority>>,
            ),
            (
                "tokio-util",
                tails::cancelling::<peers::Timed<peers::Wheel>>,
            ),
        ],
    );
}

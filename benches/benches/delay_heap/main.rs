//! What `DelayHeap` costs, beside the containers that one would use instead: no lock, no clock.
//!
//! Run and shown as the bench of the queue is, which says how.

mod cases;
mod peers;
#[path = "../delay_queue/rounds.rs"]
mod rounds;
#[path = "../delay_queue/stopwatch.rs"]
mod stopwatch;

use rounds::Rounds;

fn main() {
    cases::all(&Rounds::from_args());
}

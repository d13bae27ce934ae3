//! What a delay queue costs, beside what else one would use.
//!
//! Not criterion: a queue of a million entries cannot be made anew for each sample, and rows of
//! different peers compare only if they take turns within minutes. So each case runs the peers
//! round by round in changing order, and shows the least, the median and the most of the rounds.
//! `--quick` makes fewer rounds and smaller sizes, `--test` runs each once on next to nothing,
//! `--peer NAME` leaves out the others, `--size N` measures at N entries instead of the usual sizes
//! (both can be repeated), and a word runs only the cases whose names contain it.

mod crossing;
mod lateness;
mod order;
mod peers;
mod rounds;
mod single;
mod stopwatch;
mod tails;

use rounds::Rounds;

fn main() {
    let mut rounds = Rounds::from_args();
    single::all(&mut rounds);
    crossing::all(&mut rounds);
    lateness::all(&mut rounds);
    tails::run(
        &rounds,
        &[
            ("ours", tails::cancelling::<peers::Ours>),
            ("BinaryHeap", tails::ordered::<peers::MutexHeap>),
            ("BTreeMap", tails::cancelling::<peers::MutexTree>),
            ("priority-queue", tails::cancelling::<peers::MutexPriority>),
            ("tokio-util", tails::cancelling::<peers::Wheel>),
        ],
    );
}

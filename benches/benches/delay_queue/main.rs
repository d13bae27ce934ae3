//! Cost of the delay queue compared with alternatives.
//!
//! Criterion is not used: a queue of a million entries cannot be built for each sample, and rows of
//! different peers are comparable only if they alternate within minutes. Each case runs the peers
//! round by round in changing order, and prints the minimum, the median and the maximum of the
//! rounds. `--quick` makes fewer rounds with smaller sizes, `--test` runs each case once with tiny
//! sizes, `--peer NAME` selects peers, `--size N` measures at N entries instead of the usual sizes
//! (both can be repeated), and a word selects the cases whose names contain it.

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

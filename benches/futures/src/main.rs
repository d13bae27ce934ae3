//! One case of the comparison with executors of futures, on one of them, in one process.
//!
//! `futures-compare list` prints the cases and their executors. `futures-compare run CASE EXECUTOR` runs one and prints
//! its figures, one JSON object per line, the headline first. `cargo xtask bench --futures` runs it repeatedly and
//! compares the figures.
//!
//! # Invariants
//! 1. Each executor has two worker threads and a process of its own.
//! 2. The bound of an executor without one is written as its users write it: a semaphore, and a permit per task.
//! 3. The main thread sleeps while it waits for the end of a section.

mod bounded;
mod count;
mod echo;
mod fairness;
mod peer;
mod peers;
mod unbounded;

fn main() {
    let mut cases = bounded::cases();
    cases.extend(unbounded::cases());
    cases.extend(fairness::cases());
    cases.extend(echo::cases());
    measure::case::main(&cases);
}

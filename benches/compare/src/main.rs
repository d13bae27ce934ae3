//! One case of the comparison, on one pool, in one process.
//!
//! `compare list` prints the cases and the pools of each. `compare run CASE POOL` runs one case
//! and prints its figures, a JSON object per line, the headline first. `cargo xtask bench` runs
//! this program repeatedly and evaluates the figures.
//!
//! No statistics are computed here: a single run on a shared machine says little.
//!
//! # Invariants
//! 1. A pool is measured in a process that has not used any other pool.
//! 2. Every peer gets the same number of threads, the same tasks and the same way of counting.
//! 3. Threads are started and warm before a section is measured, unless the case measures their
//!    start.
//! 4. The main thread does not spin while a section is measured: on a machine of two cores it
//!    would take half of a core from the pool.

mod allocations;
mod args;
mod cases;
mod count;
mod gate;
mod mailbox;
mod neighbours;
mod peer;
mod peers;
mod stamps;
mod throughput;
mod wake;
mod work;

use std::process;

use args::Command;
use measure::case::{self, Run};
use measure::{meter, percentiles, report};
use neighbours::Neighbours;

fn main() {
    let done = args::parse(std::env::args().skip(1)).and_then(|command| match command {
        Command::List => case::list(&cases::all()),
        Command::Spin => neighbours::spin(),
        Command::Run(run) => one(&run),
    });
    if let Err(error) = done {
        eprintln!("compare: {error}");
        process::exit(1);
    }
    // Pools are not released: some need seconds for it, and no case measures it.
    process::exit(0);
}

fn one(run: &Run) -> Result<(), Box<dyn std::error::Error>> {
    let _neighbours = run.oversubscribed.then(Neighbours::start).transpose()?;
    case::run(&cases::all(), run)
}

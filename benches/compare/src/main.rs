//! One case of the comparison, on one pool, in one process.
//!
//! `compare list` says which cases there are and which pools can do them, `compare run CASE POOL`
//! runs one of them and prints its figures, a JSON object per line, the headline first.
//! `cargo xtask bench` starts this program over and over and judges the figures.
//!
//! Not for: statistics. A single run on a shared machine says little.
//!
//! # What always holds
//! 1. A pool is measured in a process that has seen no other pool.
//! 2. Every peer gets the same number of threads, the same tasks and the same way of counting.
//! 3. Threads are started and warm before a section is measured, unless starting them is part of
//!    the question.
//! 4. This program spins on no core while a section is measured: on a machine of two cores a
//!    main thread that spins would take half of it from the pool.

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
    // Pools are not taken down: some need seconds for it, and it is no part of any question.
    process::exit(0);
}

fn one(run: &Run) -> Result<(), Box<dyn std::error::Error>> {
    let _neighbours = run.oversubscribed.then(Neighbours::start).transpose()?;
    case::run(&cases::all(), run)
}

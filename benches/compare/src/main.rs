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
mod case;
mod cases;
mod count;
mod gate;
mod mailbox;
mod meter;
mod neighbours;
mod peer;
mod peers;
mod percentiles;
mod report;
mod stamps;
mod throughput;
mod wake;
mod work;

use std::error::Error;
use std::io::{self, Write};
use std::process;

use args::Command;
use case::Run;
use neighbours::Neighbours;

fn main() {
    let done = args::parse(std::env::args().skip(1)).and_then(|command| match command {
        Command::List => list(),
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

fn list() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    for case in cases::all() {
        writeln!(out, "{}", serde_json::to_string(&case)?)?;
    }
    Ok(out.flush()?)
}

fn one(run: &Run) -> Result<(), Box<dyn Error>> {
    let cases = cases::all();
    let case = cases
        .iter()
        .find(|case| case.name == run.case)
        .ok_or_else(|| format!("there is no case `{}`", run.case))?;
    if !case.pools.contains(&run.pool.as_str()) {
        return Err(format!("`{}` cannot do the case `{}`", run.pool, run.case).into());
    }
    let neighbours = run.oversubscribed.then(Neighbours::start).transpose()?;
    let report = (case.run)(run)?;
    drop(neighbours);
    let mut out = io::stdout().lock();
    for metric in report.finish() {
        writeln!(out, "{}", serde_json::to_string(&metric)?)?;
    }
    Ok(out.flush()?)
}

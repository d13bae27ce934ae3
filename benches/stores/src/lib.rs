//! The comparison of durable queues: its cases, and the interface of a compared queue.
//!
//! The program `stores` has our stores and the yardsticks. `stores-peers`, a package of a
//! separate workspace, has the peers. Both have the commands that `measure` describes: `list`,
//! `run CASE POOL`.
//!
//! No statistics are computed here: a single run on a shared machine says little.
//!
//! # Invariants
//! 1. A queue is measured in a process that has not used any other queue, in a database that is
//!    created for this run and dropped after it.
//! 2. Each queue gets the same jobs: a hundred bytes that contain the due time by the system
//!    clock, which is the servers' clock too.
//! 3. The preparation of a case (tables, jobs) has ended, and its sessions are closed, before the
//!    counters of the server are read.

mod cases;
mod contender;
mod job;
mod place;

use measure::case::{self, Case};

pub use contender::{Can, Contender, Fault, Handler, LOOK_EVERY, Outcome, Queue, Workers};
pub use job::{Job, micros, now};
pub use place::{Needs, POSTGRES, Place};

/// Runs a program with these contenders.
pub fn main(contenders: &[Contender]) {
    main_with(contenders, Vec::new());
}

/// The same with further cases of the program.
pub fn main_with(contenders: &[Contender], more: Vec<Case>) {
    let mut cases = cases::all(contenders);
    cases.extend(more);
    case::main(&cases);
}

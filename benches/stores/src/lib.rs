//! The comparison of durable queues: its cases, and what a queue has to do to be in it.
//!
//! The program `stores` has our stores and the yardsticks; `stores-peers`, a package of a workspace
//! of its own, has the peers. Both are asked as `measure` says: `list`, `run CASE POOL`.
//!
//! Not for: statistics. A single run on a shared machine says little.
//!
//! # What always holds
//! 1. A queue is measured in a process that has seen no other, in a database that is made for this
//!    run and dropped after it.
//! 2. Each gets the same jobs: a hundred bytes that say when they are due, by the machine's clock,
//!    which is the servers' clock too.
//! 3. What a case prepares (tables, jobs that lie there) is over, and its sessions are closed, before
//!    the counters of the server are read.

mod cases;
mod contender;
mod job;
mod place;

use measure::case::{self, Case};

pub use contender::{Can, Contender, Fault, Handler, Outcome, Queue, Workers};
pub use job::{Job, micros, now};
pub use place::{Needs, POSTGRES, Place};

/// The whole of a program that has these.
pub fn main(contenders: &[Contender]) {
    main_with(contenders, Vec::new());
}

/// The same, with cases of the program's own.
pub fn main_with(contenders: &[Contender], more: Vec<Case>) {
    let mut cases = cases::all(contenders);
    cases.extend(more);
    case::main(&cases);
}

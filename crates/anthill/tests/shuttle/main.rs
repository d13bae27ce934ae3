//! Random schedules of whole pools and queues through their public interface, with user code that
//! waits, wakes in place and panics.
//!
//! loom's models are exhaustive and therefore small: two racing parties, often two of one kind.
//! Here up to six threads run all of the code at once, in some hundreds of random schedules each.
//! Half of the schedules are uniform, half change priorities. One seed determines the schedule and
//! the actions of the threads.
//!
//! Each scenario keeps a [`Ledger`]: every task, entry or key is processed exactly once or
//! returned, nothing is left, and the statistics are at rest. A lost wake-up is a deadlock, which
//! shuttle detects at once. Scenarios wait for the work *before* they release anything.
//!
//! Run with `cargo xtask shuttle`.
#![cfg(anthill_shuttle)]
#![expect(clippy::unwrap_used, reason = "a failing scenario must panic")]

mod dedup_queue;
mod delay_queue;
mod ledger;
mod multi_pool;
mod pool;
mod scheduled_pool;
mod tasks;

use ledger::{Ledger, Ticket};
use sync_shim::model::explore;
use tasks::{InPlace, Latch, Ticker, block_on, join_all, poll_once, raise};

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

//! Behaviour through the public interface, of stores and of queues over them.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]
#![expect(clippy::similar_names, reason = "a taker and what is taken")]
#![expect(
    clippy::unchecked_time_subtraction,
    reason = "of constants, the smaller from the greater"
)]

mod batches;
mod calls;
mod cancelling;
mod clocks;
mod done;
mod faults;
mod futures;
mod handlers;
mod history;
mod hooks;
mod horizon;
mod kinds;
mod latch;
mod leases;
mod limits;
mod locked;
mod party;
mod rate;
mod readme;
mod refused;
#[cfg(feature = "cron")]
mod repeating;
mod settling;
mod shutdown;
mod sim;
mod taking;
mod threads;
mod unconfirmed;
mod urgent;
mod user_code;
mod worker;

use durable_queue_tests::support;

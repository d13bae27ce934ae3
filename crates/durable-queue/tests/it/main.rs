//! Behaviour through the public interface: stores here, the queue over them there.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod faults;
mod leases;
mod processes;
mod settling;
mod shutdown;
mod sim;
mod sqlite;
mod support;
mod taking;
mod twin;
mod worker;

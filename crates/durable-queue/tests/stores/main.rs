//! The stores on servers: the contract, and what is particular to each, against a real server.
//!
//! `cargo xtask stores up` starts them, and `target/stores/env` says where they are. A test whose server
//! is not named by its variable passes, and the binary says on the terminal what was left out.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

#[path = "../servers/address.rs"]
mod address;
mod alike;
mod anywhere;
#[cfg(feature = "tls")]
#[expect(dead_code, reason = "the server of Redis is a test's own here")]
#[path = "../servers/databases.rs"]
mod databases;
mod disturbed;
mod postgres;
#[path = "../it/programs.rs"]
mod programs;
mod proxy;
mod redis;
mod tls;

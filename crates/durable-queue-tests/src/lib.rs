//! Shared by the stores' tests: common test cases, and the servers.
//!
//! The tests in `tests/` run on all stores. The contract itself is tested by [`durable_queue_testing::conformance`].
#![expect(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    clippy::unwrap_used,
    reason = "parts of tests: they are read there, and a helper that fails is a test that fails"
)]
#![forbid(unsafe_code)]

pub mod address;
pub mod alike;
pub mod anywhere;
pub mod cancelling;
pub mod clients;
pub mod databases;
pub mod disturbed;
pub mod grouped;
pub mod programs;
pub mod proxy;
pub mod redis_cluster;
pub mod redis_sentinel;
pub mod redis_server;
pub mod rules;
pub mod support;
pub mod threads;
pub mod tls;

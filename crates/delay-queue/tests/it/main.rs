//! Tests of `DelayQueue`; the tests of `DelayHeap` are in `tests/heap`. Time is manual unless a test says
//! otherwise.
#![cfg(all(feature = "std", not(anthill_loom)))]
#![expect(clippy::unwrap_used, reason = "a test fails with its helper")]
#![expect(clippy::unchecked_time_subtraction, reason = "as above")]

mod alarm;
mod bound;
mod bounds;
mod calls;
#[cfg(feature = "channel")]
mod channel;
#[cfg(any(feature = "tokio", feature = "async-io"))]
mod clocks;
mod close;
mod contents;
mod early;
mod errors;
mod foreign;
#[cfg(unix)]
mod forks;
mod futures;
mod idle;
mod ids;
mod many;
mod memory;
mod nesting;
mod order;
mod precision;
mod rules;
mod smoke;
#[cfg(feature = "stream")]
mod stream;
mod support;
mod take;
mod take_many;
mod wakers;
mod watch;

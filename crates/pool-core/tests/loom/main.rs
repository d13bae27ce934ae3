//! Models of the pool's protocols: each names the racing parties and the harm they must not do.
//!
//! Every model waits for its work *before* it releases, so that no closing broadcast rescues a
//! lost wake-up, and no model has a keep-alive whose time passes unless its subject is expiry, so
//! that no timer does. A bound is the number of pre-emptions per execution: two find the known
//! bugs of this family in seconds; a third multiplies the executions by twenty to thirty, and is
//! used where it stays under half a minute. Switches at blocking points are not pre-emptions and
//! are all explored.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a model that fails is to panic")]

mod admission;
mod blocking;
mod cancel;
mod dispatch;
mod futures;
mod handle;
mod life;
mod on_full;
mod pause;
mod permits;
mod support;

use support::{Runs, check, end, untimed};

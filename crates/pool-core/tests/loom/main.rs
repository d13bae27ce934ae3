//! Models of the pool's protocols. Each names the racing parties and the harm that must not happen.
//!
//! Every model waits for its work *before* it releases, so that the broadcast of the release cannot
//! hide a lost wake-up. Only the models of expiry have a keep-alive that passes, so that no timer
//! can hide one either. `preemptions` bounds the pre-emptions per execution. Two find the known
//! bugs of this family in seconds. A third multiplies the executions by twenty to thirty, and is
//! used where the model stays under half a minute. Switches at blocking points are not
//! pre-emptions: all of them are explored.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a failing model must panic")]

mod admission;
mod blocking;
mod cancel;
mod dispatch;
mod futures;
mod handle;
mod lanes;
mod life;
mod on_full;
mod pause;
mod permits;
mod support;

use support::{Runs, check, end, untimed};

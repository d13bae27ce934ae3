//! Models of the timer's protocol. Each model names the racing parties and the failure to rule out.
//!
//! A simplified pool replaces the pool. Every model waits for its work *before* it releases, so
//! that the wake-ups of the release cannot hide a lost wake-up. Only models advance the clock, so
//! that no timeout can hide one either.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a failing model must panic")]

mod cancel;
mod handle;
mod release;
mod reset;
mod rig;
mod series;
mod sleep;
mod twin;
mod user_code;
mod waits;

use std::time::Duration;
use sync_shim::model::check;

/// Due at once.
const NOW: Duration = Duration::ZERO;
/// Due when a model advances its clock.
const SOON: Duration = Duration::from_nanos(5);
/// Later than any model's clock.
const LATE: Duration = Duration::from_secs(3600);

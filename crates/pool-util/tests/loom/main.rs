//! Models of mappings, scopes, groups and keyed tasks. As in `pool-core`, each names the racing parties and the
//! harm that must not happen.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a failing model must panic")]

mod group;
mod keyed;
mod map;
#[path = "../../../pool-core/tests/loom/support.rs"]
mod support;

use support::{Runs, check, end, untimed};

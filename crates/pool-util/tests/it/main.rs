//! Tests of mappings, scopes, groups and keyed tasks on real threads, with a manual clock.
#![cfg(not(anthill_loom))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod crew;
#[cfg(unix)]
mod forks;
mod group;
mod group_cancelled;
mod group_failing;
mod group_waits;
mod keyed;
mod keyed_limit;
mod large;
mod map;
mod no_threads;
mod own_waits;
mod scope;
mod scope_user_code;
#[path = "../../../pool-core/tests/it/support.rs"]
#[expect(dead_code, reason = "shared with the tests of `pool-core`")]
mod support;
mod task_hook;

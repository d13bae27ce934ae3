//! The engine: decides when to claim, start, settle and renew, and carries it out.

pub(crate) mod calls;
pub(crate) mod claimed;
pub(crate) mod combine;
pub(crate) mod command;
pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod hooks;
pub(crate) mod horizon;
pub(crate) mod kept;
pub(crate) mod lanes;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod pump;
pub(crate) mod running;
pub(crate) mod shared;
pub(crate) mod signals;
pub(crate) mod stats;
#[cfg(all(test, not(anthill_loom)))]
pub(crate) mod stub;
pub(crate) mod time_limit;
pub(crate) mod unread;

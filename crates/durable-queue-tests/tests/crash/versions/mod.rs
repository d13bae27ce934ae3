//! Two versions of this crate at the same time: a process of an older version and one of this version share a
//! store, in each order of starts and stops of a rolling upgrade and of a rollback.
//!
//! Both programs are built from these files, each with its version of the crate, so these files use only
//! calls that the older version has. `cargo xtask versions` builds both and runs the driver, which is this
//! version's.
//!
//! The driver ([`play`]) tells each process ([`party`]) what to push, and when to take, restart and leave.
//! Each process writes a diary of its handlers' actions, which the [`ledger`] compares with the driver's
//! expectations.

mod format;
mod ledger;
mod party;
mod play;

pub(crate) use party::{MODE, Party};
pub(crate) use play::run;

//! Two versions of this crate at once: a process of an older version and one of this version work on one store, in
//! each order in which a rolling upgrade, and the way back, starts and stops them.
//!
//! Both programs are built from these files, each with its own version of the crate. So these files use only calls
//! that the older version has. `cargo xtask versions` builds both and runs the driver, which is this version's.
//!
//! The driver ([`play`]) tells each process ([`party`]) what to push, and when to take, restart and leave. Each process
//! writes down what its handlers do; the [`ledger`] compares that with what the driver expects.

mod format;
mod ledger;
mod party;
mod play;

pub(crate) use party::{MODE, Party};
pub(crate) use play::run;

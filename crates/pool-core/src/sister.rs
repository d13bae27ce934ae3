//! Interface for the other crates of this workspace, in addition to the public one.

pub(crate) mod group;
pub mod internals;
pub(crate) mod pool_handle;
pub(crate) mod scheduler;

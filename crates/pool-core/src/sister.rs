//! What the crates of this workspace build on, beyond the public face.

pub(crate) mod group;
pub mod internals;
pub(crate) mod pool_handle;
pub(crate) mod scheduler;

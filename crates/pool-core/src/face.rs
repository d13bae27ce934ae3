//! The public interface: pool handles, the builder, and the calls that submit, spawn and wait.

pub(crate) mod batch;
pub(crate) mod builder;
pub(crate) mod pool;
pub(crate) mod pool_kinds;
pub(crate) mod reserve;
mod submit;
pub(crate) mod task_builder;
pub(crate) mod traits;
mod waits;

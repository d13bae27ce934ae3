//! The timer beside its model. The fuzzer compiles this, too.

pub(crate) mod model;
mod pool;
pub(crate) mod program;
mod walk;

pub(crate) use walk::walk;

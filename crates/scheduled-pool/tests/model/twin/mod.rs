//! Compares the timer with its reference model. The fuzzer compiles this module as well.

pub(crate) mod model;
mod pool;
pub(crate) mod program;
mod walk;

pub(crate) use walk::walk;

//! A pool and its model, side by side.

mod figures;
mod given;
pub(crate) mod job;
mod model;
pub(crate) mod patience;
pub(crate) mod program;
mod rules;
mod settle;
mod subject;
mod walk;

pub(crate) use walk::walk;

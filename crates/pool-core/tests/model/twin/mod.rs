//! A pool and its model, side by side.

mod figures;
mod given;
mod job;
mod model;
mod patience;
pub(crate) mod program;
mod rules;
mod settle;
mod subject;
mod walk;

pub(crate) use walk::walk;

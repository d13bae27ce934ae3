//! A pool and its model.

mod batch;
mod figures;
mod given;
mod group;
pub(crate) mod job;
mod model;
pub(crate) mod patience;
mod permits;
pub(crate) mod program;
mod rules;
mod settle;
mod subject;
mod twinned;
mod walk;

pub(crate) use walk::walk;

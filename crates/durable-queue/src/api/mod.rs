//! The queue as its users see it: pushes, takes, and the calls about single jobs and about the queue.

pub(crate) mod asynchronous;
pub(crate) mod batch;
pub(crate) mod builder;
pub(crate) mod kind;
pub(crate) mod push_in;
pub(crate) mod queue;
pub(crate) mod result;
pub(crate) mod take;

//! Tasks with keys on a pool, and what must hold of them after each step of a random program.
//!
//! Which of several keys a worker comes to first is the pool's affair: it may go on to the next task
//! of its key, or leave that to the queue. So the model looks who runs, and says whether that may be;
//! how many run, it says itself.

pub(crate) mod program;
mod subject;
mod walk;

pub(crate) use walk::walk;

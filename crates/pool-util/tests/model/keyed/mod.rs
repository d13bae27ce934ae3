//! Keyed tasks on a pool, and their invariants after each step of a random program.
//!
//! Which key a worker serves next is unspecified: it may continue with its key, or leave the key's
//! next task to the queue. So the model observes which tasks run and checks that they may. It
//! predicts how many run.

pub(crate) mod program;
mod subject;
mod walk;

pub(crate) use walk::walk;

//! A task that is given up, as the hook for that sees it.

use std::fmt;

pub(crate) type DiscardHook = dyn Fn(&DiscardedTask<'_>) + Send + Sync;

/// A task that a full pool discards, as the [discard hook](crate::Builder::discard_hook) sees it.
///
/// Its captures are dropped after the hook has returned, on the same thread. Then it
/// is counted in [`Stats::discarded`](crate::Stats::discarded), and its handle ends with
/// [`JoinError::Discarded`](crate::JoinError::Discarded).
pub struct DiscardedTask<'a> {
    pub(crate) pool: &'a str,
    pub(crate) task: &'static str,
    pub(crate) name: Option<&'a str>,
}

impl DiscardedTask<'_> {
    /// The pool's name.
    pub fn pool(&self) -> &str {
        self.pool
    }

    /// The type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.task
    }

    /// The task's [name](crate::TaskBuilder::name), if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.name
    }
}

impl fmt::Debug for DiscardedTask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscardedTask")
            .field("pool", &self.pool)
            .field("task", &self.task)
            .field("name", &self.name)
            .finish()
    }
}

//! The argument of the discard hook.

use std::fmt;

pub(crate) type DiscardHook = dyn Fn(&DiscardedTask<'_>) + Send + Sync;

/// A task that a full pool discards, passed to the [discard hook](crate::Builder::discard_hook).
///
/// Its captures are dropped after the hook has returned, on the same thread. Then the task is
/// counted in [`Stats::discarded`](crate::Stats::discarded), and its handle ends with
/// [`JoinError::Discarded`](crate::JoinError::Discarded).
pub struct DiscardedTask<'a> {
    pub(crate) pool: &'a str,
    pub(crate) task: &'static str,
    pub(crate) name: Option<&'a str>,
}

impl DiscardedTask<'_> {
    /// Returns the pool's name.
    pub fn pool(&self) -> &str {
        self.pool
    }

    /// Returns the type name of the task's closure, or of a typed pool's argument.
    pub fn task(&self) -> &'static str {
        self.task
    }

    /// Returns the task's [name](crate::TaskBuilder::name), if it has one.
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

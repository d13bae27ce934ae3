//! The label of a task in reports and for hooks.

use std::time::Instant;

/// The names and the time of submission of a task.
#[derive(Clone, Copy)]
pub(crate) struct Label<'a> {
    /// The type name of the closure, or of a typed pool's argument.
    pub(crate) type_name: &'static str,
    pub(crate) name: Option<&'a str>,
    /// When the task was submitted or spawned, if a hook needs it.
    pub(crate) handed_over: Option<Instant>,
}

impl Label<'static> {
    /// Creates the label of a task without a name of its own.
    pub(crate) fn of_type(type_name: &'static str) -> Self {
        Self {
            type_name,
            name: None,
            handed_over: None,
        }
    }
}

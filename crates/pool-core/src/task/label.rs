//! What a task is called, in reports and by hooks.

use std::time::Instant;

/// What a task is called.
#[derive(Clone, Copy)]
pub(crate) struct Label<'a> {
    /// The type name of the closure, or of a typed pool's argument.
    pub(crate) type_name: &'static str,
    pub(crate) name: Option<&'a str>,
    /// When it was submitted or spawned, if a hook wants to know.
    pub(crate) handed_over: Option<Instant>,
}

impl Label<'static> {
    /// Of a task without a name of its own.
    pub(crate) fn of_type(type_name: &'static str) -> Self {
        Self {
            type_name,
            name: None,
            handed_over: None,
        }
    }
}

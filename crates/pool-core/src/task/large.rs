//! The limit above which captures are boxed.
//!
//! The call that takes a task boxes large captures before they pass over more of its caller's stack, and they stay in the
//! box until the task is called. So a task may capture as much as the closure of a plain thread.

/// Captures above this size are large.
const LARGE: usize = 16 * 1024;

/// Whether a value is too large to be moved from one frame to the next.
// In a `const` block no code is generated for the other case, even without optimization.
pub const fn is_large<T>() -> bool {
    size_of::<T>() > LARGE
}

//! Replacement of `writes.rs` on systems without file notifications: watches poll.

use std::io;
use std::path::Path;

/// Cannot be created.
#[derive(Debug)]
pub(super) enum Listening {}

impl Listening {
    pub(super) fn start(_: &Path, _: impl FnMut() -> bool + Send + 'static) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

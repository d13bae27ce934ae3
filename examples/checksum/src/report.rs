//! What became of one file.

use std::io;
use std::path::PathBuf;

/// A SHA-256.
pub(crate) type Digest = [u8; 32];

/// What was read of a file.
pub(crate) struct Content {
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
}

/// A name and its content, or why there is none.
pub(crate) struct Report {
    pub(crate) name: PathBuf,
    pub(crate) result: io::Result<Content>,
}

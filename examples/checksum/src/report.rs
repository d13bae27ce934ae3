//! The result for one file.

use std::io;
use std::path::PathBuf;

/// A SHA-256.
pub(crate) type Digest = [u8; 32];

/// The hash and size of a file.
pub(crate) struct Content {
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
}

/// A name with its content or error.
pub(crate) struct Report {
    pub(crate) name: PathBuf,
    pub(crate) result: io::Result<Content>,
}

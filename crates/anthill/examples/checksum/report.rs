//! What became of one file.

use std::io;
use std::path::PathBuf;

/// A SHA-256.
pub(crate) type Digest = [u8; 32];

/// A name and its digest, or why there is none.
pub(crate) struct Report {
    pub(crate) name: PathBuf,
    pub(crate) result: io::Result<Digest>,
}

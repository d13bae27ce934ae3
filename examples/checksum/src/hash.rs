//! The SHA-256 of a stream, read in pieces of equal size.
//!
//! # Invariants
//! 1. Each hashing thread has one buffer of [`CHUNK`] bytes for all of its files, so the memory does
//!    not depend on their sizes.

use crate::progress::Progress;
use crate::report::Content;
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Bytes per read: few system calls, and small enough for a core's second-level cache.
const CHUNK: usize = 128 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Hashes the file at `path`. Blocks while it reads; a fifo waits for its writer.
///
/// # Errors
/// If the file cannot be opened or read to its end.
pub(crate) fn file(path: &Path, progress: &Progress) -> io::Result<Content> {
    stream(File::open(path)?, progress)
}

/// Hashes `source` to its end.
///
/// # Errors
/// If a read fails.
pub(crate) fn stream(mut source: impl Read, progress: &Progress) -> io::Result<Content> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(CHUNK, 0);
        let (mut hasher, mut bytes) = (Sha256::new(), 0);
        loop {
            match source.read(buffer) {
                Ok(0) => {
                    let digest = hasher.finalize().into();
                    return Ok(Content { digest, bytes });
                }
                Ok(read) => {
                    hasher.update(&buffer[..read]);
                    bytes += read as u64;
                    progress.read(read);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    })
}

//! The SHA-256 of a stream, read in pieces of one size.
//!
//! # Invariants
//! 1. A thread that hashes owns one buffer of [`CHUNK`] bytes, made once and used for every
//!    file it reads; the size of a file costs no memory.

use crate::progress::Progress;
use crate::report::Content;
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Bytes asked for at a time: few system calls, and still within a core's second cache.
const CHUNK: usize = 128 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Hashes the file at `path`. Blocks as reading it does; a fifo waits for its writer.
///
/// # Errors
/// If it cannot be opened or read to its end.
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

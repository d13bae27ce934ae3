//! Checks that a connection's file is still the one at its path. In write-ahead mode `SQLite` does not check
//! this: it continues in a deleted, moved or replaced file, and its changes are lost with the process.
//!
//! Does not detect a log (`-wal`) that is deleted alone, nor changes during a call. Works only on Unix, where
//! files have identities.

use std::path::PathBuf;
use std::{error, fmt};

use durable_queue::store::Result;
use durable_queue::{ErrorKind, StoreError};
use rusqlite::Connection;

/// Path and identity of a file when it was opened. `None` for a database in memory.
#[derive(Debug)]
pub(super) struct Place(Option<(PathBuf, Id)>);

impl Place {
    pub(super) fn of(connection: &Connection) -> Self {
        let path = connection.path().filter(|path| !path.is_empty());
        let path = path.map(PathBuf::from);
        Self(path.and_then(|path| id(&path).map(|id| (path, id))))
    }

    /// Checks that the file is at its path.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], because a moved file may return.
    pub(super) fn check(&self) -> Result<()> {
        match &self.0 {
            Some((path, known)) if id(path) != Some(*known) => {
                Err(StoreError::new(ErrorKind::Unavailable).with_source(Moved))
            }
            _ => Ok(()),
        }
    }
}

/// Does not contain the path, which may be confidential.
#[derive(Debug)]
struct Moved;

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file was deleted, moved or replaced since it was opened")
    }
}

impl error::Error for Moved {}

/// Device and inode number.
type Id = (u64, u64);

#[cfg(unix)]
fn id(path: &std::path::Path) -> Option<Id> {
    use std::os::unix::fs::MetadataExt;

    let data = path.metadata().ok()?;
    Some((data.dev(), data.ino()))
}

#[cfg(not(unix))]
fn id(_: &std::path::Path) -> Option<Id> {
    None
}

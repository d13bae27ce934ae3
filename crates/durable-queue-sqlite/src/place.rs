//! Whether the file of a connection is still the one at its path. In write-ahead mode `SQLite` does not ask: it goes
//! on in a file that was deleted, moved or replaced, and what it has written there is gone with the process.
//!
//! Not for: a log (`-wal`) that is deleted by itself, nor what is done in the midst of a call. And only Unix says
//! which file it is.

use std::path::PathBuf;
use std::{error, fmt};

use durable_queue::store::Result;
use durable_queue::{ErrorKind, StoreError};
use rusqlite::Connection;

/// Where a file was when it was opened, and which one it was. None of one in memory.
#[derive(Debug)]
pub(super) struct Place(Option<(PathBuf, Id)>);

impl Place {
    pub(super) fn of(connection: &Connection) -> Self {
        let path = connection.path().filter(|path| !path.is_empty());
        let path = path.map(PathBuf::from);
        Self(path.and_then(|path| id(&path).map(|id| (path, id))))
    }

    /// # Errors
    /// [`ErrorKind::Unavailable`]: a file that was moved may come back.
    pub(super) fn check(&self) -> Result<()> {
        match &self.0 {
            Some((path, known)) if id(path) != Some(*known) => {
                Err(StoreError::new(ErrorKind::Unavailable).with_source(Moved))
            }
            _ => Ok(()),
        }
    }
}

/// The path may be a secret.
#[derive(Debug)]
struct Moved;

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file was deleted, moved or replaced since it was opened")
    }
}

impl error::Error for Moved {}

/// The device and the number of the file there.
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

//! Writes files atomically.
//!
//! A file is written under another name in the same folder and renamed when complete, so a reader
//! never sees a partial file, and neither an error nor a signal leaves one. Only a killed process
//! leaves its `.part` file. Not for files that must survive a power failure, because nothing is
//! synced.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a complete file, and creates missing folders.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    fs::create_dir_all(folder)?;
    let mut part_name = std::ffi::OsString::from(".");
    part_name.push(name);
    part_name.push(format!(".{}.part", std::process::id()));
    let part = Part(folder.join(part_name));
    File::create(&part.0)?.write_all(content)?;
    fs::rename(&part.0, path)
}

/// A partial file, which is removed unless it was renamed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok(); // Usually there is no such file any more.
    }
}

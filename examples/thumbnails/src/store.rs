//! Files that are whole or not there.
//!
//! Written under another name in the same folder, and renamed when complete: a reader never sees half a
//! file, and neither an error nor a signal leaves one. Only a process that is killed in the middle
//! leaves its `.part` behind. Not for files that must survive a power cut: nothing is synced.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file whole, and the folders above it if they are missing.
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

/// An incomplete file, which is removed unless it was renamed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok(); // Under this name there is mostly nothing any more.
    }
}

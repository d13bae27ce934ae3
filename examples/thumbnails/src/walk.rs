//! Finds the pictures below a folder, depth first, in the byte order of their names.
//!
//! Files are selected by their extension; whether they are pictures shows when they are read. Links
//! to folders are not followed. The output folder may be inside the input folder, and is skipped.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// A picture, or a folder that could not be read.
pub(crate) struct Found {
    /// Relative to the folder.
    pub(crate) name: PathBuf,
    pub(crate) path: io::Result<PathBuf>,
}

/// Walks lazily, and holds only the names of the current folder and of those above it.
pub(crate) fn walk(folder: &Path, output: &Path) -> impl Iterator<Item = Found> + use<> {
    let (root, output) = (folder.to_owned(), output.to_owned());
    let walk = WalkDir::new(folder).sort_by_file_name().into_iter();
    let walk = walk.filter_entry(move |entry| !is_output(entry, &output));
    walk.filter_map(move |entry| {
        let below = |path: &Path| path.strip_prefix(&root).unwrap_or(path).to_owned();
        match entry {
            Ok(entry) => (!entry.file_type().is_dir() && is_picture(entry.path())).then(|| Found {
                name: below(entry.path()),
                path: Ok(entry.into_path()),
            }),
            Err(error) => Some(Found {
                name: below(error.path().unwrap_or(&root)),
                path: Err(error.into()),
            }),
        }
    })
}

fn is_output(entry: &DirEntry, output: &Path) -> bool {
    entry.file_type().is_dir() && fs::canonicalize(entry.path()).is_ok_and(|path| path == output)
}

fn is_picture(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    ["png", "jpg", "jpeg"]
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

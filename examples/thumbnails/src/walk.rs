//! The pictures below a folder, in the byte order of their names, depth first.
//!
//! A picture is a file whose name ends like one; that it is one shows when it is read. Links to folders
//! are not followed. The folder of the thumbnails may lie below the other one, and is left out.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// A picture, or something that the walk could not enter.
pub(crate) struct Found {
    /// Relative to the folder.
    pub(crate) name: PathBuf,
    pub(crate) path: io::Result<PathBuf>,
}

/// Walks on as it is asked, and holds the names of the present folder and those above it.
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

//! From the arguments to the files that are to be read, in the order of the output.
//!
//! A directory is walked depth first, its entries in the byte order of their names. Sorting
//! holds the names of the directories from the root to the present one in memory, and
//! nothing of the rest of the tree.
//!
//! Within a walk, a link to a regular file is read as that file, a link to a directory is
//! not followed, and what is neither (fifo, socket, device) is skipped. An argument itself
//! is always taken at its word: a link is followed, a fifo is read.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::iter;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use walkdir::{DirEntry, WalkDir};

/// Something that gets a line of output or a message.
pub(crate) struct Found {
    pub(crate) name: PathBuf,
    pub(crate) source: Source,
}

/// Where the bytes of a [`Found`] come from.
pub(crate) enum Source {
    /// The file of that name. That it can be opened is not promised.
    File,
    /// Standard input, when its turn has come.
    Stdin(Turn),
    /// Nowhere: the walk itself failed here.
    Nowhere(io::Error),
}

/// The right to read standard input, which several arguments may name: two readers at a time would
/// share the bytes. Dropped, it passes to the next.
pub(crate) struct Turn {
    before: Option<Receiver<()>>,
    _after: Sender<()>,
}

impl Turn {
    /// Waits for the reader before. It has started, so it does not wait for this thread.
    pub(crate) fn wait(&self) {
        if let Some(before) = &self.before {
            before.recv().expect_err("it is dropped, and nothing sent");
        }
    }
}

/// Everything that `paths` name, lazily.
pub(crate) fn walk(paths: Vec<OsString>) -> impl Iterator<Item = Found> {
    let mut before = None;
    paths.into_iter().flat_map(move |path| {
        if path == "-" {
            let (after, next) = channel();
            let turn = Turn {
                before: before.replace(next),
                _after: after,
            };
            Box::new(iter::once(found(path.into(), Source::Stdin(turn))))
        } else {
            argument(path)
        }
    })
}

fn argument(path: OsString) -> Box<dyn Iterator<Item = Found>> {
    if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
        return Box::new(iter::once(found(path.into(), Source::File)));
    }
    let root = PathBuf::from(path);
    let entries = WalkDir::new(&root).sort_by_file_name().into_iter();
    Box::new(entries.filter_map(move |entry| match entry {
        Ok(entry) => is_to_be_read(&entry).then(|| found(entry.into_path(), Source::File)),
        Err(error) => {
            let name = error.path().unwrap_or(&root).to_owned();
            Some(found(name, Source::Nowhere(cause(error))))
        }
    }))
}

fn is_to_be_read(entry: &DirEntry) -> bool {
    let kind = entry.file_type();
    if kind.is_symlink() {
        // A broken link is passed on: opening it fails, and that gives it its message.
        return fs::metadata(entry.path()).map_or(true, |target| target.is_file());
    }
    kind.is_file()
}

fn found(name: PathBuf, source: Source) -> Found {
    Found { name, source }
}

/// The system's own error: its number gives the text that other tools print.
fn cause(error: walkdir::Error) -> io::Error {
    let text = error.to_string();
    error
        .into_io_error()
        .unwrap_or_else(|| io::Error::other(text))
}

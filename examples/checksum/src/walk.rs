//! Finds the files to read, in the order of the output.
//!
//! A directory is walked depth first, its entries in the byte order of their names. The walk holds
//! only the names of the directories from the root to the current one in memory.
//!
//! Within a walk, a link to a regular file is read, a link to a directory is not followed, and
//! other files (fifos, sockets, devices) are skipped. An argument is always read: a link is
//! followed, and a fifo is read.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::iter;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use walkdir::{DirEntry, WalkDir};

/// A file, or an error of the walk, which becomes a message.
pub(crate) struct Found {
    pub(crate) name: PathBuf,
    pub(crate) source: Source,
}

/// The source of the bytes of a [`Found`].
pub(crate) enum Source {
    /// The file of that name, which may not be readable.
    File,
    /// Standard input, when it is this reader's turn.
    Stdin(Turn),
    /// None: the walk failed here.
    Nowhere(io::Error),
}

/// The right to read standard input, which several arguments may name. Two concurrent readers would
/// each get a part of the bytes. A drop passes the right to the next reader.
pub(crate) struct Turn {
    before: Option<Receiver<()>>,
    _after: Sender<()>,
}

impl Turn {
    /// Waits for the previous reader, which is already running and does not need this thread.
    pub(crate) fn wait(&self) {
        if let Some(before) = &self.before {
            before.recv().expect_err("it is dropped, and nothing sent");
        }
    }
}

/// Walks all `paths` lazily.
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
        // A broken link is passed on, because its open fails with the right message.
        return fs::metadata(entry.path()).map_or(true, |target| target.is_file());
    }
    kind.is_file()
}

fn found(name: PathBuf, source: Source) -> Found {
    Found { name, source }
}

/// The system's own error, whose number gives the text that other tools print.
fn cause(error: walkdir::Error) -> io::Error {
    let text = error.to_string();
    error
        .into_io_error()
        .unwrap_or_else(|| io::Error::other(text))
}

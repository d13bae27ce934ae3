//! The two directories, and the reconciliation of one name.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

/// The result of a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    Written,
    Removed,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "same ",
            Self::Written => "wrote",
            Self::Removed => "gone ",
        })
    }
}

/// The modification times and lengths of the desired and the actual file of each name.
pub(crate) type View = BTreeMap<String, [Option<(SystemTime, u64)>; 2]>;

pub(crate) struct Folders {
    desired: PathBuf,
    actual: PathBuf,
    /// The number of changes of a name that still fail, for the demonstration.
    faults: Mutex<BTreeMap<String, u32>>,
}

impl Folders {
    pub(crate) fn new(desired: &Path, actual: &Path) -> Self {
        Self {
            desired: desired.to_owned(),
            actual: actual.to_owned(),
            faults: Mutex::default(),
        }
    }

    /// Makes the next `times` changes of this name fail.
    pub(crate) fn fail(&self, name: &str, times: u32) {
        let mut faults = self.faults.lock().expect("nothing panics under this lock");
        faults.insert(name.to_owned(), times);
    }

    /// Lists the plain files of both directories with their modification times and lengths.
    pub(crate) fn look(&self) -> io::Result<View> {
        let mut view = View::new();
        for (side, folder) in [&self.desired, &self.actual].into_iter().enumerate() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                // Ignores names that are not UTF-8, and everything except files.
                if let Ok(name) = entry.file_name().into_string()
                    && !name.ends_with(TEMPORARY)
                    && let Ok(metadata) = entry.metadata()
                    && metadata.is_file()
                {
                    view.entry(name).or_default()[side] =
                        Some((metadata.modified()?, metadata.len()));
                }
            }
        }
        Ok(view)
    }

    /// Compares the files of this name, and makes the actual one equal to the desired one.
    pub(crate) fn reconcile(&self, name: &str) -> io::Result<Change> {
        let (desired, actual) = (read(&self.desired, name)?, read(&self.actual, name)?);
        if desired == actual {
            return Ok(Change::Nothing);
        }
        self.maybe_fail(name)?;
        let target = self.actual.join(name);
        let Some(content) = desired else {
            fs::remove_file(target)?;
            return Ok(Change::Removed);
        };
        // A reader sees the old or the new file. No other worker has this name, so no other uses
        // the temporary file.
        let temporary = self.actual.join(format!("{name}{TEMPORARY}"));
        fs::write(&temporary, content)?;
        fs::rename(temporary, target)?;
        Ok(Change::Written)
    }

    /// Whether both directories have the same files.
    pub(crate) fn are_alike(&self) -> io::Result<bool> {
        for name in self.look()?.into_keys() {
            if read(&self.desired, &name)? != read(&self.actual, &name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn maybe_fail(&self, name: &str) -> io::Result<()> {
        let mut faults = self.faults.lock().expect("nothing panics under this lock");
        match faults.get_mut(name) {
            Some(left @ 1..) => {
                *left -= 1;
                Err(io::Error::other("simulated failure"))
            }
            _ => Ok(()),
        }
    }
}

const TEMPORARY: &str = ".reconcile-tmp";

/// Returns the file's content, if the file exists.
fn read(folder: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(folder.join(name)) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

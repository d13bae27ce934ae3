//! The two directories, and what is to be done about one name.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

/// What was done about a name.
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

/// Of each name: when the desired and the actual file were changed, and their lengths.
pub(crate) type View = BTreeMap<String, [Option<(SystemTime, u64)>; 2]>;

pub(crate) struct Folders {
    desired: PathBuf,
    actual: PathBuf,
    /// How often changes of a name still fail, for a show of it.
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

    /// The next so many changes of this name fail.
    pub(crate) fn fail(&self, name: &str, times: u32) {
        let mut faults = self.faults.lock().expect("nothing panics under this lock");
        faults.insert(name.to_owned(), times);
    }

    /// All names of plain files in either directory, and how the files look from outside.
    pub(crate) fn look(&self) -> io::Result<View> {
        let mut view = View::new();
        for (side, folder) in [&self.desired, &self.actual].into_iter().enumerate() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                // Names that are no text, and what is no file, are not our business.
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

    /// Looks at both files of this name, and makes the actual one like the desired one.
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
        // A reader sees the old one or the new one. No other worker is at this name, so
        // this file is ours.
        let temporary = self.actual.join(format!("{name}{TEMPORARY}"));
        fs::write(&temporary, content)?;
        fs::rename(temporary, target)?;
        Ok(Change::Written)
    }

    /// Whether both have the same files.
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
                Err(io::Error::other("the disk is in a bad mood"))
            }
            _ => Ok(()),
        }
    }
}

const TEMPORARY: &str = ".reconcile-tmp";

/// The file's content, if there is such a file.
fn read(folder: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(folder.join(name)) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

//! A demonstration with generated directories, which ends by itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use crate::folders::Folders;
use crate::{control, signals};

const FILES: u32 = 40;

/// Creates the directories, runs until they are equal, and removes them.
pub(crate) fn run() -> io::Result<bool> {
    let place = Place::new()?;
    let folders = place.fill()?;
    // Handles Ctrl-C as well.
    let (stop, stopped) = channel();
    signals::watch(move || _ = stop.send(()))?;
    let finished = control(&folders, &stopped, || folders.are_alike().unwrap_or(false))?;
    println!("alike: {}", folders.are_alike()?);
    Ok(finished && folders.are_alike()?)
}

/// A directory for this process, removed at its end.
struct Place(PathBuf);

impl Place {
    fn new() -> io::Result<Self> {
        let root = std::env::temp_dir().join(format!("reconcile-{}", std::process::id()));
        fs::create_dir_all(&root)?;
        Ok(Self(root))
    }

    fn fill(&self) -> io::Result<Folders> {
        let [desired, actual] = ["desired", "actual"].map(|name| self.0.join(name));
        fs::create_dir_all(&desired)?;
        fs::create_dir_all(&actual)?;
        let folders = Folders::new(&desired, &actual);
        for number in 0..FILES {
            let name = format!("file-{number:02}");
            match number % 4 {
                0 => write(&desired, &name, "new")?,
                1 => {
                    write(&desired, &name, "changed")?;
                    write(&actual, &name, "old")?;
                }
                2 => write(&actual, &name, "to be removed")?,
                _ => {
                    write(&desired, &name, "the same")?;
                    write(&actual, &name, "the same")?;
                }
            }
            if number % 5 == 0 {
                folders.fail(&name, 1 + number % 3);
            }
        }
        Ok(folders)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // On failure, the directory stays among the system's temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(folder: &Path, name: &str, content: &str) -> io::Result<()> {
    fs::write(folder.join(name), content)
}

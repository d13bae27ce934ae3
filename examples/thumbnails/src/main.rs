//! `thumbnails FOLDER OUTPUT`: a small picture for every PNG and JPEG below a folder.
//!
//! Work that takes time and memory for each piece, through a mapping in a scope, which borrows what all
//! pictures share: so many are decoded at a time, the results come in the order of the walk, a broken
//! file is one message and not the end, and Ctrl-C stops between two pictures.
//!
//! ```text
//! walk ── files ──> scope: read, decode, scale, write ── reports ──> lines, messages, progress
//! ```
//!
//! Without arguments it draws a few pictures of its own, and shows what it does with them.
//!
//! # Invariants
//! 1. At most `jobs` pictures are in memory. What waits for its turn is a name.
//! 2. Under the name of a picture in OUTPUT there is a whole thumbnail or none: `store.rs`.
//! 3. After the first signal no picture is begun, and those that were begun end: their reports come as
//!    always.

mod args;
mod demo;
mod progress;
// What the two signals do is the same in both examples.
#[path = "../../checksum/src/signals.rs"]
mod signals;
mod stop;
mod store;
mod thumbnail;
mod walk;

use anthill::prelude::*;
use anthill::{BuildError, Pool};
use args::{Command, Options};
use progress::Progress;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use stop::Stop;
use walk::{Found, walk};

/// Names that are found and whose reports are not printed yet. So many small pictures are made behind a
/// huge one before anything has to wait for its line.
const WINDOW: usize = 256;
const _: () = assert!(args::MAX_JOBS <= WINDOW);

fn main() -> ExitCode {
    let command = match args::parse() {
        Ok(command) => command,
        Err(wrong) => {
            eprintln!("thumbnails: {wrong}\nTry 'thumbnails --help' for more information.");
            return ExitCode::from(2);
        }
    };
    let ended = match command {
        Command::Make(options) => make_all(&options),
        Command::Demo => demo::run(make_all),
        Command::Say(text) => {
            let said = io::stdout().write_all(text.as_bytes());
            said.map(|()| ExitCode::SUCCESS).map_err(Box::from)
        }
    };
    ended.unwrap_or_else(|error| {
        eprintln!("thumbnails: {error}");
        ExitCode::FAILURE
    })
}

/// What became of one picture.
struct Report {
    /// Below the folder, and below the output.
    name: PathBuf,
    outcome: Outcome,
}

enum Outcome {
    Made {
        from: Size,
        to: Size,
    },
    Failed(Box<dyn Error + Send + Sync>),
    /// The work was stopped before its turn came.
    NotBegun,
}

/// Width and height.
#[derive(Clone, Copy)]
struct Size(u32, u32);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.0, self.1)
    }
}

/// Does the whole work. The status says whether all were made, or a signal came.
fn make_all(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    fs::create_dir_all(&options.output)?;
    let output = fs::canonicalize(&options.output)?;
    if fs::canonicalize(&options.folder)? == output {
        return Err("the output is the folder of the pictures, which it would replace".into());
    }
    let pool = pool_for(options.jobs)?;
    let progress = Progress::new();
    let stop = Arc::new(Stop::new());
    signals::watch({
        let (stop, progress) = (Arc::clone(&stop), progress.clone());
        move |signal| {
            stop.set(signal);
            progress.message("thumbnails: stopping; what was begun is finished");
        }
    })?;

    let (mut made, mut failed) = (0_u64, 0_u64);
    let printed = pool.scope(|scope| {
        let found = walk(&options.folder, &output).take_while(|_| stop.signal().is_none());
        let reports = scope.map(found, |found| report(found, options.size, &output, &stop));
        for report in reports.window(WINDOW) {
            let Report { name, outcome } = report?; // It panicked.
            let name = name.display();
            match outcome {
                Outcome::Made { from, to } => {
                    made += 1;
                    progress.made(made);
                    let line = format!("{name}: {from} -> {to}\n");
                    progress.beside(|| io::stdout().write_all(line.as_bytes()))?;
                }
                Outcome::Failed(error) => {
                    failed += 1;
                    progress.message(&format!("thumbnails: {name}: {error}"));
                }
                Outcome::NotBegun => {}
            }
        }
        Ok::<(), Box<dyn Error>>(())
    });
    // The scope has waited for what was begun: no file is half written.
    pool.release();
    pool.wait_released()?;
    progress.clear();
    if let Err(error) = printed {
        let error = error.downcast::<io::Error>()?;
        if error.kind() == ErrorKind::BrokenPipe {
            signals::end_by_sigpipe();
        }
        return Err(error);
    }
    eprintln!("thumbnails: {made} made, {failed} failed");
    Ok(match (stop.signal(), failed) {
        (Some(signal), _) => ExitCode::from(128 + signal),
        (None, 0) => ExitCode::SUCCESS,
        (None, _) => ExitCode::FAILURE,
    })
}

/// A pool in whose scopes so many pictures are made at a time: one on each worker, and one by the scope's
/// owner, which does not only wait. To have no worker at all the pool is released: then the owner makes
/// all of them.
fn pool_for(jobs: usize) -> Result<Pool, BuildError> {
    let workers = jobs - 1;
    let pool = Pool::builder()
        .capacity(workers.max(1))
        .name("thumbnails")
        .build()?;
    if workers == 0 {
        pool.release();
    }
    Ok(pool)
}

/// Makes one, on a worker or the main thread.
fn report(found: Found, size: u32, output: &Path, stop: &Stop) -> Report {
    let outcome = match found.path {
        // It was found before the signal, and its turn comes after it.
        Ok(_) if stop.signal().is_some() => Outcome::NotBegun,
        Ok(path) => make(&path, &output.join(&found.name), size).unwrap_or_else(Outcome::Failed),
        Err(error) => Outcome::Failed(error.into()),
    };
    let name = found.name;
    Report { name, outcome }
}

fn make(from: &Path, to: &Path, size: u32) -> Result<Outcome, Box<dyn Error + Send + Sync>> {
    let made = thumbnail::make(&fs::read(from)?, size)?;
    store::write(to, &made.file)?;
    Ok(Outcome::Made {
        from: made.from,
        to: made.to,
    })
}

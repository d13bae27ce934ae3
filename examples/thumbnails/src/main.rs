//! `thumbnails FOLDER OUTPUT`: a small picture for every PNG and JPEG below a folder.
//!
//! Shows a mapping in a scope, for pieces of work that take time and memory and borrow shared data: a
//! limited number of pictures is decoded at a time, the results are in the order of the walk, a broken
//! file causes a message and does not end the program, and Ctrl-C stops between two pictures.
//!
//! ```text
//! walk ── files ──> scope: read, decode, scale, write ── reports ──> lines, messages, progress
//! ```
//!
//! Without arguments, it generates a few pictures and makes their thumbnails.
//!
//! # Invariants
//! 1. At most `jobs` pictures are in memory. Waiting pictures are only names.
//! 2. A thumbnail in OUTPUT is complete or missing: `store.rs`.
//! 3. After the first signal no picture is started, and the reports of started pictures are printed.

mod args;
mod demo;
mod progress;
// Both examples handle signals in the same way.
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

/// Names found whose reports are not printed yet. This many small pictures can be made behind a
/// huge one before a worker has to wait for its line.
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

/// The result for one picture.
struct Report {
    /// Relative to both folders.
    name: PathBuf,
    outcome: Outcome,
}

enum Outcome {
    Made {
        from: Size,
        to: Size,
    },
    Failed(Box<dyn Error + Send + Sync>),
    /// A signal arrived before it was started.
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

/// Makes all thumbnails. The exit code tells whether all were made, or a signal arrived.
fn make_all(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    fs::create_dir_all(&options.output)?;
    let output = fs::canonicalize(&options.output)?;
    if fs::canonicalize(&options.folder)? == output {
        return Err(
            "the output folder is the folder of the pictures, which would be overwritten".into(),
        );
    }
    let pool = pool_for(options.jobs)?;
    let progress = Progress::new();
    let stop = Arc::new(Stop::new());
    signals::watch({
        let (stop, progress) = (Arc::clone(&stop), progress.clone());
        move |signal| {
            stop.set(signal);
            progress.message("thumbnails: stopping after the started pictures");
        }
    })?;

    let (mut made, mut failed) = (0_u64, 0_u64);
    let printed = pool.scope(|scope| {
        let found = walk(&options.folder, &output).take_while(|_| stop.signal().is_none());
        let reports = scope.map(found, |found| report(found, options.size, &output, &stop));
        for report in reports.window(WINDOW) {
            let Report { name, outcome } = report?; // The task panicked.
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
    // The scope has waited for started pictures, so no file is half written.
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

/// A pool whose scopes make this many pictures at a time: one per worker, and one by the scope's
/// owner, which helps while it waits. Without workers, the pool is released, and the owner makes
/// all pictures.
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

/// Makes one thumbnail, on a worker or on the main thread.
fn report(found: Found, size: u32, output: &Path, stop: &Stop) -> Report {
    let outcome = match found.path {
        // Found before the signal, and started after it.
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

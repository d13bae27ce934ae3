//! `checksum [PATH..]`: the SHA-256 of every file, in the format of `sha256sum`.
//!
//! What a mapping is for: any number of files, a few threads, results in order, flat memory.
//!
//! ```text
//! walk ── files ──> pool ── reports ──> printer
//! ```
//!
//! The main thread asks the mapping for one report after the other and prints it. The mapping walks
//! on as it is asked, has the pool read the files that were found, and gives what became of them in
//! the order of the walk.
//!
//! Not a replacement for `sha256sum`: it has no `-c`, and no other formats.
//!
//! # Invariants
//! 1. At most [`WINDOW`] files are found and not yet printed, `jobs` of them being read.
//! 2. Each file found gives one line or one message on stderr, unless the work is stopped before. The
//!    lines go to stdout, or with `--total` into one SHA-256.

mod args;
mod hash;
mod line;
mod print;
mod progress;
mod quote;
mod report;
mod signals;
mod summary;
mod walk;

use anthill::Pool;
use anthill::prelude::*;
use args::{Command, Options};
use print::{Printer, complain};
use progress::Progress;
use report::Report;
use std::cell::Cell;
use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::process::{self, ExitCode};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use summary::Summary;
use walk::{Found, Source, walk};

/// Files that are found and not yet printed. So many small ones are read behind a huge one before
/// the workers have to wait for its line.
const WINDOW: usize = 1024;
const _: () = assert!(args::MAX_JOBS <= WINDOW);

fn main() -> ExitCode {
    match args::parse() {
        Ok(Command::Sum(options)) => match sum(options) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                complain(&format!("checksum: {error}\n"));
                ExitCode::FAILURE
            }
        },
        Ok(Command::Say(text)) => match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => end_unwritten(&error),
        },
        Err(wrong) => {
            complain(&format!(
                "checksum: {wrong}\nTry 'checksum --help' for more information.\n"
            ));
            ExitCode::from(2)
        }
    }
}

/// Does the whole work. `Ok(false)` says that a file could not be read.
fn sum(options: Options) -> Result<bool, Box<dyn Error>> {
    let begin = Instant::now();
    let pool = Pool::builder()
        .capacity(options.jobs)
        .name("checksum")
        .build()?;
    let progress = Progress::new();
    let reading = progress.clone();
    let found = Rc::new(Cell::new(0));
    let count = Rc::clone(&found);
    let files = walk(options.paths).inspect(move |_| count.set(count.get() + 1));
    let mut reports = pool
        .map(files, move |found| read(found, &reading))
        .window(WINDOW);
    let stopped_by = Arc::new(OnceLock::new());
    signals::watch({
        let (canceller, stopped_by) = (reports.canceller(), Arc::clone(&stopped_by));
        move |signal| {
            stopped_by.get_or_init(|| signal);
            canceller.cancel();
        }
    })?;

    let mut printer = Printer::new(progress.clone(), options.total);
    let (mut taken, mut peak_waiting) = (0, 0);
    while let Some(report) = reports.next() {
        peak_waiting = peak_waiting.max(found.get() - taken);
        taken += 1;
        let written = match report {
            Ok(report) => printer.print(report),
            // It panicked, or no thread could be started.
            Err(error) => printer.fail(&format!("checksum: {error}\n")),
        };
        // A reader at the other end has the lines before the next wait.
        let flushed = written.and_then(|()| match reports.ready() {
            0 => printer.flush(),
            _ => Ok(()),
        });
        if let Err(error) = flushed {
            progress.clear();
            end_unwritten(&error);
        }
    }
    progress.clear();
    if let Some(signal) = stopped_by.get() {
        // A worker may sit in a read that never returns, so no worker is waited for.
        process::exit(128 + signal);
    }
    pool.release();
    pool.wait_released()?;
    if let Err(error) = printer.finish() {
        end_unwritten(&error);
    }
    if options.total {
        let summary = Summary {
            files: printer.files(),
            bytes: printer.bytes(),
            time: begin.elapsed(),
            peak_threads: pool.stats().peak_live,
            most_threads: options.jobs,
            peak_waiting,
            most_waiting: WINDOW,
        };
        complain(&format!("checksum: {summary}\n"));
    }
    Ok(!printer.failed())
}

/// Reads what was found, on a worker.
fn read(found: Found, progress: &Progress) -> Report {
    let result = match found.source {
        Source::File => hash::file(&found.name, progress),
        Source::Stdin(turn) => {
            turn.wait();
            hash::stream(io::stdin().lock(), progress)
        }
        Source::Nowhere(error) => Err(error),
    };
    let name = found.name;
    Report { name, result }
}

/// Ends the process because stdout took no more.
fn end_unwritten(error: &io::Error) -> ! {
    if error.kind() == ErrorKind::BrokenPipe {
        signals::end_by_sigpipe();
    }
    complain(&format!("checksum: write error: {}\n", line::plain(error)));
    process::exit(1)
}
